#include "nexus/compile/compile_contexts.h"

#include <algorithm>
#include <set>
#include <string>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::compile {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

class CompileContextsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = dir_.File("tiny.gguf");
    ASSERT_OK(llm::testing::WriteTinyModel(path, {}));
    ASSERT_OK_AND_ASSIGN(model_, llm::Model::Load({.path = path}));
    frame_.family = "chatml";
    frame_.head_prefix = "<|im_start|>system\n";
    frame_.head_suffix = "<|im_end|>\n";
    frame_.user_prefix = "<|im_start|>user\n";
    frame_.user_suffix = "<|im_end|>\n";
    frame_.answer_prefix = "<|im_start|>assistant\n";
    frame_.answer_suffix = "<|im_end|>\n";
  }

  ScopedTempDir dir_;
  std::shared_ptr<const llm::Model> model_;
  schema::SchemaFrame frame_;
};

TEST_F(CompileContextsTest, TextsDifferInNameKindAndLength) {
  std::set<std::string_view> names;
  size_t shortest = SIZE_MAX;
  size_t longest = 0;
  for (const CompileText& text : CompileTexts()) {
    names.insert(text.name);
    EXPECT_FALSE(text.user.empty());
    EXPECT_FALSE(text.answer.empty());
    shortest = std::min(shortest, text.user.size());
    longest = std::max(longest, text.user.size());
  }
  EXPECT_EQ(names.size(), CompileTexts().size());
  EXPECT_LT(shortest, 100U);
  EXPECT_GT(longest, 3000U);
}

TEST_F(CompileContextsTest, StandBehindTheTemplatesHead) {
  // The tiny model has a token a byte, so the texts are long here.
  ASSERT_OK_AND_ASSIGN(
      const auto contexts,
      BuildCompileContexts(
          *model_, frame_,
          {.count = 4, .context_tokens = 16384, .reserve_tokens = 1024}));
  ASSERT_THAT(contexts, SizeIs(4));
  for (size_t i = 0; i < contexts.size(); ++i) {
    const std::string text = model_->Detokenize(contexts[i].tokens);
    EXPECT_THAT(text, HasSubstr("<|im_start|>system\nYou are a helpful "
                                "assistant.<|im_end|>\n<|im_start|>user\n"));
    EXPECT_THAT(text, HasSubstr(std::string(CompileTexts()[i].user)));
    EXPECT_TRUE(
        text.ends_with(std::string(CompileTexts()[i].answer) + "<|im_end|>\n"));
  }
}

// The recipe's name is the same for every context size, so the tokens must be.
TEST_F(CompileContextsTest, AreTheSameInEveryContextTheyFit) {
  const auto build = [&](int context_tokens) {
    return BuildCompileContexts(
        *model_, frame_,
        {.count = 2, .context_tokens = context_tokens, .reserve_tokens = 500});
  };
  ASSERT_OK_AND_ASSIGN(const auto large, build(16384));
  const auto longest = static_cast<int>(
      std::max(large[0].tokens.size(), large[1].tokens.size()));
  ASSERT_OK_AND_ASSIGN(const auto small, build(longest + 500));
  for (size_t i = 0; i < large.size(); ++i) {
    EXPECT_EQ(small[i].tokens, large[i].tokens);
  }
  const Status refused = build(longest + 499).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(),
              HasSubstr("--ctx " + std::to_string(longest + 500)));
}

TEST_F(CompileContextsTest, ShortOnesComeFirst) {
  const auto texts = CompileTexts();
  size_t first_half = 0;
  size_t second_half = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    (i < texts.size() / 2 ? first_half : second_half) += texts[i].user.size();
  }
  EXPECT_LT(2 * first_half, second_half);
}

TEST_F(CompileContextsTest, RefusesWhatCanNotBe) {
  const auto code = [&](const CompileContextOptions& options) {
    return BuildCompileContexts(*model_, frame_, options).status().code();
  };
  EXPECT_EQ(code({.count = 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.count = 1000}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.count = 1, .reserve_tokens = -1}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.count = 1, .context_tokens = -1}),
            StatusCode::kResourceExhausted);
}

TEST_F(CompileContextsTest, RecipeNameTellsFamilyAndCountApart) {
  EXPECT_THAT(RecipeName(frame_, 4), StartsWith("mean-chatml-4-"));
  EXPECT_NE(RecipeName(frame_, 4), RecipeName(frame_, 5));
  schema::SchemaFrame other = frame_;
  other.family = "gemma";
  EXPECT_NE(RecipeName(frame_, 4), RecipeName(other, 4));
}

}  // namespace
}  // namespace nexus::compile
