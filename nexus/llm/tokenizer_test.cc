// Tokenizing and sampling with a real vocabulary.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/llm/e2e_models_for_test.h"
#include "nexus/llm/grammar.h"
#include "nexus/llm/grammar_schemas_for_test.h"
#include "nexus/llm/sampler.h"

namespace nexus::llm {
namespace {

class TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, LoadSmolLm2({.vocab_only = true}));
  }
  std::shared_ptr<const Model> model_;
};

TEST_F(TokenizerTest, RoundTrips) {
  for (const std::string& text :
       {std::string("What is the weather in S\xC3\xA3o Paulo?"),
        std::string(" leading and trailing "), std::string("\n\n\t{\"a\": 1}"),
        std::string("\xE6\xB0\xB4\xF0\x9F\x8C\x8A"), std::string("x .  ,")}) {
    ASSERT_OK_AND_ASSIGN(const auto tokens, model_->Tokenize(text));
    EXPECT_EQ(model_->Detokenize(tokens), text);
  }
}

TEST_F(TokenizerTest, SpecialTokensAreOneTokenWhenAsked) {
  ASSERT_OK_AND_ASSIGN(const auto special, model_->Tokenize("<|im_start|>"));
  EXPECT_EQ(special.size(), 1U);
  EXPECT_EQ(model_->TokenText(special[0]), "<|im_start|>");
  ASSERT_OK_AND_ASSIGN(
      const auto plain,
      model_->Tokenize("<|im_start|>", {.parse_special = false}));
  EXPECT_GT(plain.size(), 1U);
  EXPECT_EQ(model_->Detokenize(plain), "<|im_start|>");
}

TEST_F(TokenizerTest, ClosingEndsInValidJsonWithRealTokens) {
  std::mt19937 random(3);
  std::vector<float> logits(static_cast<size_t>(model_->info().vocab_size));
  for (const char* schema : kGoodSchemas) {
    auto grammar = JsonSchemaToGrammar(*model_, schema);
    ASSERT_TRUE(grammar.ok()) << schema;
    ASSERT_OK_AND_ASSIGN(auto sampler,
                         Sampler::Create(*model_, {.grammar = *grammar}));
    std::string text;
    bool ended = false;
    for (int i = 0; i < 400 && !ended; ++i) {
      for (float& logit : logits) {
        logit = static_cast<float>(random() % 1000) / 100.0F;
      }
      auto token =
          i < 6 ? sampler->Sample(logits) : sampler->SampleClosing(logits);
      ASSERT_TRUE(token.ok()) << schema << "\n" << text << token.status();
      ended = model_->IsEndOfGeneration(*token);
      if (!ended) text += model_->TokenText(*token);
    }
    ASSERT_TRUE(ended) << schema << "\n" << text;
    const auto json = ParseJson(text, "generated");
    EXPECT_TRUE(json.ok()) << schema << "\n" << text << json.status();
  }
}

}  // namespace
}  // namespace nexus::llm
