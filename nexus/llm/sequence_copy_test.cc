#include "nexus/llm/sequence_copy.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/testing/kv_test_util.h"

namespace nexus::llm {
namespace {

using testing::LargestDifference;
using testing::SomeTokens;
using testing::TinyArch;

constexpr int kSequences = 3;
constexpr int kContextTokens = 512;
// Cells are F16; rows of different sequences are orders of magnitude apart.
constexpr double kRounding = 0.02;

struct Setting {
  TinyArch arch;
  bool flash_attention;
};

class SequenceCopyTest : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_,
                         testing::LoadTinyModel({.arch = GetParam().arch}));
  }

  std::unique_ptr<Context> NewContext(ContextOptions options) {
    options.context_tokens = kContextTokens;
    options.threads = 1;
    options.flash_attention = GetParam().flash_attention;
    auto context = Context::Create(model_, options);
    EXPECT_OK(context.status());
    return context.ok() ? *std::move(context) : nullptr;
  }
  std::unique_ptr<Context> Alone() { return NewContext({}); }
  std::unique_ptr<Context> SideBySide() {
    return NewContext({.batch_tokens = kSequences,
                       .ubatch_tokens = kSequences,
                       .sequences = kSequences,
                       .unified = false});
  }

  std::shared_ptr<const Model> model_;
};

// Sequences of lengths below and above a sliding window, continued side by
// side, against each alone; one of them ends and another takes its place.
TEST_P(SequenceCopyTest, SequencesGoOnAsEachAlone) {
  auto together = SideBySide();
  std::vector<std::unique_ptr<Context>> alone;
  for (int i = 0; i < kSequences; ++i) {
    alone.push_back(Alone());
    ASSERT_OK(alone.back()->Decode(
        SomeTokens(20 + 60 * i, static_cast<uint32_t>(i) + 1), 0, 0,
        Logits::kLast));
    ASSERT_OK(CopySequence(*alone.back(), 0, together.get(), i));
    EXPECT_EQ(together->PositionEnd(i), 20 + 60 * i);
  }
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      alone[1] = Alone();
      ASSERT_OK(alone[1]->Decode(SomeTokens(33, 9), 0, 0, Logits::kLast));
      ASSERT_OK(CopySequence(*alone[1], 0, together.get(), 1));
    }
    std::vector<NextToken> next;
    for (int i = 0; i < kSequences; ++i) {
      next.push_back({i, together->PositionEnd(i), 20 + step * 7 + i});
    }
    ASSERT_OK(together->DecodeNext(next));
    for (int i = 0; i < kSequences; ++i) {
      const NextToken& one = next[static_cast<size_t>(i)];
      Context& reference = *alone[static_cast<size_t>(i)];
      ASSERT_OK(
          reference.Decode({&one.token, 1}, one.position, 0, Logits::kLast));
      EXPECT_LT(
          LargestDifference(together->LogitsRow(i), reference.LogitsRow(0)),
          kRounding)
          << "sequence " << i << ", step " << step;
    }
    EXPECT_GT(LargestDifference(together->LogitsRow(0), together->LogitsRow(1)),
              10 * kRounding);
  }
}

TEST_P(SequenceCopyTest, CopiesBetweenContextsOfOneKind) {
  auto from = Alone();
  auto to = Alone();
  const auto tokens = SomeTokens(50);
  ASSERT_OK(from->Decode(tokens, 0, 0, Logits::kLast));
  // What was there goes.
  ASSERT_OK(to->Decode(SomeTokens(70, 2), 0, 0, Logits::kNone));
  ASSERT_OK(CopySequence(*from, 0, to.get(), 0));
  const Token token = 42;
  ASSERT_OK(from->Decode({&token, 1}, 50, 0, Logits::kLast));
  ASSERT_OK(to->Decode({&token, 1}, 50, 0, Logits::kLast));
  EXPECT_EQ(LargestDifference(from->LogitsRow(0), to->LogitsRow(0)), 0);
}

TEST_P(SequenceCopyTest, RefusesTokensThatDontContinue) {
  auto alone = Alone();
  auto together = SideBySide();
  ASSERT_OK(alone->Decode(SomeTokens(20), 0, 0, Logits::kLast));
  ASSERT_OK(CopySequence(*alone, 0, together.get(), 0));
  const Token beyond = model_->info().vocab_size;
  const std::vector<std::vector<NextToken>> bad = {
      {},
      {{0, 19, 1}},
      {{0, 21, 1}},
      {{1, 1, 1}},
      {{kSequences, 0, 1}},
      {{-1, 0, 1}},
      {{0, 20, beyond}},
      {{0, 20, -1}},
      {{0, 20, 1}, {1, 0, 1}, {2, 0, 1}, {2, 1, 1}}};
  for (const auto& next : bad) {
    EXPECT_EQ(together->DecodeNext(next).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(together->PositionEnd(0), 20);
  }
  together->Cancel();
  EXPECT_EQ(together->DecodeNext(std::vector<NextToken>{{0, 20, 1}}).code(),
            StatusCode::kCancelled);
  together->ResetCancel();
  EXPECT_OK(together->DecodeNext(std::vector<NextToken>{{0, 20, 1}}));
}

INSTANTIATE_TEST_SUITE_P(Layouts, SequenceCopyTest,
                         ::testing::Values(Setting{TinyArch::kQwen2, false},
                                           Setting{TinyArch::kQwen2, true},
                                           Setting{TinyArch::kLlama, false},
                                           Setting{TinyArch::kGemma3, false},
                                           Setting{TinyArch::kGemma2, true}));

class RecurrentCopyTest : public SequenceCopyTest {};

TEST_P(RecurrentCopyTest, IsRefused) {
  auto from = Alone();
  auto to = SideBySide();
  ASSERT_OK(from->Decode(SomeTokens(20), 0, 0, Logits::kLast));
  const Status copied = CopySequence(*from, 0, to.get(), 0);
  EXPECT_FALSE(copied.ok());
  EXPECT_EQ(to->PositionEnd(0), 0);
}

INSTANTIATE_TEST_SUITE_P(Models, RecurrentCopyTest,
                         ::testing::Values(Setting{TinyArch::kMamba, false},
                                           Setting{TinyArch::kLfm2, false}));

}  // namespace
}  // namespace nexus::llm
