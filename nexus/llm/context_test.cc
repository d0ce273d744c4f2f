#include "nexus/llm/context.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/testing/kv_test_util.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

using testing::LargestDifference;

std::vector<Token> SomeTokens(int count) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    tokens[static_cast<size_t>(i)] = 10 + (i * 37) % 200;
  }
  return tokens;
}

std::vector<float> Row(const Context& context, int index) {
  const auto row = context.LogitsRow(index);
  return {row.begin(), row.end()};
}

class ContextTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Model> LoadTiny(
      const testing::TinyModelOptions& options = {}) {
    const std::string path = dir_.File("tiny.gguf");
    NEXUS_CHECK(testing::WriteTinyModel(path, options).ok());
    auto model = Model::Load({.path = path});
    NEXUS_CHECK(model.ok());
    return *std::move(model);
  }
  std::unique_ptr<Context> NewContext(std::shared_ptr<const Model> model,
                                      ContextOptions options) {
    // Threads that wait for each other crawl on a busy machine.
    options.threads = 1;
    auto context = Context::Create(std::move(model), options);
    NEXUS_CHECK(context.ok());
    return *std::move(context);
  }

  ScopedTempDir dir_;
};

TEST_F(ContextTest, RefusesPositionsThatDontContinue) {
  auto context = NewContext(LoadTiny(), {.context_tokens = 256});
  const auto tokens = SomeTokens(8);
  EXPECT_EQ(context->Decode(tokens, 1, 0, Logits::kNone).code(),
            StatusCode::kInvalidArgument);
  ASSERT_OK(context->Decode(tokens, 0, 0, Logits::kNone));
  for (Position wrong : {0, 7, 9, -1}) {
    EXPECT_EQ(context->Decode(tokens, wrong, 0, Logits::kNone).code(),
              StatusCode::kInvalidArgument)
        << wrong;
  }
  EXPECT_EQ(context->PositionEnd(0), 8);
  EXPECT_EQ(context->PositionBegin(0), 0);
  EXPECT_OK(context->Decode(tokens, 8, 0, Logits::kNone));
}

TEST_F(ContextTest, RefusesTokensAndSequencesOutOfRange) {
  auto model = LoadTiny();
  auto context = NewContext(model, {.context_tokens = 256, .sequences = 2});
  const std::vector<Token> high = {1, model->info().vocab_size};
  const std::vector<Token> low = {-1};
  for (const auto& tokens : {high, low, std::vector<Token>{}}) {
    EXPECT_EQ(context->Decode(tokens, 0, 0, Logits::kLast).code(),
              StatusCode::kInvalidArgument);
  }
  for (SequenceId sequence : {-1, 2, 1000}) {
    EXPECT_EQ(context->Decode(SomeTokens(2), 0, sequence, Logits::kLast).code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(ContextTest, FullCacheLeavesTheSequenceAsBefore) {
  auto context =
      NewContext(LoadTiny(), {.context_tokens = 256, .batch_tokens = 64});
  ASSERT_OK(context->Decode(SomeTokens(100), 0, 0, Logits::kLast));
  EXPECT_EQ(context->Decode(SomeTokens(157), 100, 0, Logits::kNone).code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(context->PositionEnd(0), 100);
  // The other sequence fills what is left: this is found out in the third
  // batch.
  ASSERT_OK(context->Decode(SomeTokens(60), 0, 1, Logits::kNone));
  const Status full = context->Decode(SomeTokens(150), 100, 0, Logits::kNone);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("256"), std::string::npos);
  EXPECT_EQ(context->PositionEnd(0), 100);
  EXPECT_EQ(context->PositionEnd(1), 60);
  EXPECT_OK(context->Decode(SomeTokens(96), 100, 0, Logits::kLast));
}

TEST_F(ContextTest, SamePiecesGiveTheSameBits) {
  auto model = LoadTiny();
  const auto tokens = SomeTokens(90);
  const std::span<const Token> all(tokens);
  const auto run = [&](const std::vector<size_t>& pieces) {
    auto context = NewContext(model, {.context_tokens = 256});
    size_t done = 0;
    for (size_t piece : pieces) {
      NEXUS_CHECK(context
                      ->Decode(all.subspan(done, piece),
                               static_cast<Position>(done), 0, Logits::kLast)
                      .ok());
      done += piece;
    }
    return Row(*context, 0);
  };
  const auto once = run({90});
  const auto pieces = run({32, 50, 7, 1});
  EXPECT_EQ(run({90}), once);
  EXPECT_EQ(run({32, 50, 7, 1}), pieces);
  // F16 keys and values, sums in another order.
  double scale = 0.0;
  for (float logit : once) scale = std::max(scale, std::abs(double{logit}));
  EXPECT_LT(LargestDifference(once, pieces), 0.01 * scale);
}

TEST_F(ContextTest, AllLogitsOfSeveralBatchesAreKept) {
  auto model = LoadTiny();
  const auto tokens = SomeTokens(50);
  auto whole = NewContext(model, {.context_tokens = 256});
  auto split = NewContext(model, {.context_tokens = 256, .batch_tokens = 16});
  ASSERT_OK(whole->Decode(tokens, 0, 0, Logits::kAll));
  ASSERT_OK(split->Decode(tokens, 0, 0, Logits::kAll));
  for (int i = 0; i < 50; ++i) {
    const auto a = Row(*whole, i);
    EXPECT_LT(LargestDifference(a, Row(*split, i)), 0.05) << i;
  }
  // The row of the last token is the one that kLast keeps.
  auto last = NewContext(model, {.context_tokens = 256, .batch_tokens = 16});
  ASSERT_OK(last->Decode(tokens, 0, 0, Logits::kLast));
  // Not the same bits: one row of logits is another product than sixteen.
  EXPECT_LT(LargestDifference(last->LogitsRow(0), split->LogitsRow(49)), 1e-4);
}

TEST_F(ContextTest, CancelFromAnotherThreadStopsADecode) {
  testing::TinyModelOptions big;
  big.layer_count = 12;
  big.head_dim = 64;
  big.feed_forward = 1024;
  auto context =
      NewContext(LoadTiny(big), {.context_tokens = 4096, .batch_tokens = 512});
  ASSERT_OK(context->Decode(SomeTokens(20), 0, 0, Logits::kLast));
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    context->Cancel();
  });
  Status status;
  Position at = 20;
  // Decodes of a second or so, again and again, until the cancel arrives.
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    at = context->PositionEnd(0);
    status = context->Decode(SomeTokens(2000), at, 0, Logits::kNone);
    if (status.ok()) {
      ASSERT_TRUE(context->RemoveCells(0, 20, -1));
    }
  }
  other.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(context->PositionEnd(0), at);
  EXPECT_EQ(context->Decode(SomeTokens(1), at, 0, Logits::kLast).code(),
            StatusCode::kCancelled);
  context->ResetCancel();
  EXPECT_OK(context->Decode(SomeTokens(1), at, 0, Logits::kLast));
}

TEST_F(ContextTest, RemovedAndSharedCells) {
  auto context = NewContext(LoadTiny(), {.context_tokens = 256});
  const auto tokens = SomeTokens(40);
  const std::span<const Token> all(tokens);
  ASSERT_OK(context->Decode(tokens, 0, 0, Logits::kLast));
  context->ShareCells(0, 1, 0, 30);
  EXPECT_EQ(context->PositionEnd(1), 30);
  ASSERT_OK(context->Decode(all.subspan(30), 30, 1, Logits::kLast));
  const auto shared = Row(*context, 0);
  ASSERT_TRUE(context->RemoveCells(0, 30, -1));
  EXPECT_EQ(context->PositionEnd(0), 30);
  EXPECT_EQ(context->PositionEnd(1), 40);
  ASSERT_OK(context->Decode(all.subspan(30), 30, 0, Logits::kLast));
  EXPECT_LT(LargestDifference(shared, context->LogitsRow(0)), 0.05);
  context->Clear();
  EXPECT_EQ(context->PositionEnd(0), 0);
  EXPECT_EQ(context->PositionEnd(1), 0);
}

// A window-sized cache would have dropped the cells of the first turn.
TEST_F(ContextTest, SlidingWindowModelsCanBeRewound) {
  testing::TinyModelOptions gemma;
  gemma.arch = testing::TinyArch::kGemma3;
  gemma.sliding_window = 32;
  auto context =
      NewContext(LoadTiny(gemma), {.context_tokens = 512, .ubatch_tokens = 64});
  const auto tokens = SomeTokens(300);
  const std::span<const Token> all(tokens);
  ASSERT_OK(context->Decode(all.first(100), 0, 0, Logits::kLast));
  ASSERT_OK(context->Decode(all.subspan(100, 8), 100, 0, Logits::kLast));
  const auto before = Row(*context, 0);
  ASSERT_OK(context->Decode(all.subspan(108), 108, 0, Logits::kLast));
  EXPECT_EQ(context->PositionBegin(0), 0);
  ASSERT_TRUE(context->RemoveCells(0, 100, -1));
  ASSERT_OK(context->Decode(all.subspan(100, 8), 100, 0, Logits::kLast));
  EXPECT_LT(LargestDifference(before, context->LogitsRow(0)), 1e-3);
}

TEST_F(ContextTest, RefusesEncodersAndBadOptions) {
  testing::TinyModelOptions bert;
  bert.arch = testing::TinyArch::kBert;
  bert.head_count_kv = bert.head_count;
  const auto encoder = Context::Create(LoadTiny(bert), {});
  ASSERT_FALSE(encoder.ok());
  EXPECT_EQ(encoder.status().code(), StatusCode::kUnimplemented);
  auto model = LoadTiny();
  for (const ContextOptions& options :
       {ContextOptions{.context_tokens = 0}, ContextOptions{.batch_tokens = -1},
        ContextOptions{.ubatch_tokens = 0}, ContextOptions{.threads = -2},
        ContextOptions{.sequences = 100000}}) {
    EXPECT_EQ(Context::Create(model, options).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(ContextTest, FlashAttentionGivesTheSameWithinRounding) {
  auto model = LoadTiny();
  auto plain = NewContext(model, {.context_tokens = 256});
  auto flash =
      NewContext(model, {.context_tokens = 256, .flash_attention = true});
  auto exact =
      NewContext(model, {.context_tokens = 256, .kv_type = KvType::kF32});
  for (Context* context : {plain.get(), flash.get(), exact.get()}) {
    ASSERT_OK(context->Decode(SomeTokens(60), 0, 0, Logits::kLast));
  }
  EXPECT_LT(LargestDifference(plain->LogitsRow(0), flash->LogitsRow(0)), 0.05);
  EXPECT_LT(LargestDifference(plain->LogitsRow(0), exact->LogitsRow(0)), 0.05);
}

}  // namespace
}  // namespace nexus::llm
