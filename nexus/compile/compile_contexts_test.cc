#include "nexus/compile/compile_contexts.h"

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

TEST_F(CompileContextsTest, CutsTextsToTheContext) {
  ASSERT_OK_AND_ASSIGN(
      const auto contexts,
      BuildCompileContexts(
          *model_, frame_,
          {.count = 4, .context_tokens = 1024, .reserve_tokens = 500}));
  for (const CompileContext& context : contexts) {
    EXPECT_LE(context.tokens.size(), 524U);
    EXPECT_TRUE(model_->Detokenize(context.tokens).ends_with("<|im_end|>\n"));
  }
  EXPECT_EQ(contexts[0].tokens.size(), 524U);
}

TEST_F(CompileContextsTest, RefusesWhatCanNotBe) {
  const auto code = [&](const CompileContextOptions& options) {
    return BuildCompileContexts(*model_, frame_, options).status().code();
  };
  EXPECT_EQ(code({.count = 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.count = 1000}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.context_tokens = 512, .reserve_tokens = 512}),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.context_tokens = 600, .reserve_tokens = 570}),
            StatusCode::kInvalidArgument);
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
