#include "nexus/llm/sampler.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/llm/grammar.h"
#include "nexus/llm/grammar_schemas_for_test.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

class SamplerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new ScopedTempDir();
    const std::string path = dir_->File("tiny.gguf");
    ASSERT_OK(testing::WriteTinyModel(path, {}));
    ASSERT_OK_AND_ASSIGN(model_, Model::Load({.path = path}));
  }
  static void TearDownTestSuite() {
    model_.reset();
    delete dir_;
  }

  static size_t VocabularySize() {
    return static_cast<size_t>(model_->info().vocab_size);
  }
  static std::vector<float> RandomLogits(std::mt19937& random) {
    std::vector<float> logits(VocabularySize());
    for (float& logit : logits) {
      logit = static_cast<float>(random() % 20000) / 1000.0F - 10.0F;
    }
    return logits;
  }
  static Token TokenOf(const std::string& text) {
    return model_->Tokenize(text)->front();
  }
  static std::unique_ptr<Sampler> NewSampler(const SamplerOptions& options) {
    auto sampler = Sampler::Create(*model_, options);
    NEXUS_CHECK(sampler.ok());
    return *std::move(sampler);
  }

  static ScopedTempDir* dir_;
  static std::shared_ptr<const Model> model_;
};
ScopedTempDir* SamplerTest::dir_ = nullptr;
std::shared_ptr<const Model> SamplerTest::model_;

TEST_F(SamplerTest, GreedyTakesTheLowestIdAmongEquals) {
  auto sampler = NewSampler({});
  std::vector<float> logits(VocabularySize(), 1.0F);
  EXPECT_EQ(*sampler->Sample(logits), 0);
  logits[7] = logits[9] = 2.0F;
  EXPECT_EQ(*sampler->Sample(logits), 7);
}

TEST_F(SamplerTest, RefusesLogitsThatAreNotNumbers) {
  auto sampler = NewSampler({});
  std::vector<float> logits(VocabularySize(), 0.0F);
  logits[3] = std::nanf("");
  EXPECT_EQ(sampler->Sample(logits).status().code(), StatusCode::kInternal);
  EXPECT_EQ(sampler->SampleClosing(logits).status().code(),
            StatusCode::kInternal);
  logits.assign(logits.size(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(sampler->Sample(logits).status().code(), StatusCode::kInternal);
  logits.pop_back();
  EXPECT_EQ(sampler->Sample(logits).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(SamplerTest, RefusesBadOptions) {
  for (const SamplerOptions& options :
       {SamplerOptions{.temperature = -1.0F},
        SamplerOptions{.temperature = std::nanf("")},
        SamplerOptions{.top_p = 0.0F}, SamplerOptions{.top_p = 1.5F},
        SamplerOptions{.top_k = -1}, SamplerOptions{.grammar = "nonsense"}}) {
    EXPECT_EQ(Sampler::Create(*model_, options).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST_F(SamplerTest, SameSeedSameTokens) {
  const auto run = [&](uint32_t seed) {
    auto sampler = NewSampler({.temperature = 0.8F, .seed = seed});
    std::mt19937 random(5);
    std::vector<Token> tokens;
    for (int i = 0; i < 50; ++i) {
      tokens.push_back(*sampler->Sample(RandomLogits(random)));
    }
    return tokens;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_F(SamplerTest, DrawsInProportion) {
  std::vector<float> logits(VocabularySize(), -100.0F);
  logits[10] = 0.0F;
  logits[11] = std::log(3.0F);
  auto sampler = NewSampler({.temperature = 1.0F, .seed = 3});
  int count = 0;
  for (int i = 0; i < 4000; ++i)
    count += *sampler->Sample(logits) == 11 ? 1 : 0;
  EXPECT_NEAR(count / 4000.0, 0.75, 0.03);

  auto nucleus = NewSampler({.temperature = 1.0F, .top_p = 0.7F, .seed = 3});
  auto top = NewSampler({.temperature = 1.0F, .top_k = 1, .seed = 3});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(*nucleus->Sample(logits), 11);
    EXPECT_EQ(*top->Sample(logits), 11);
  }
}

// The distribution under a grammar is the model's own, renormalised over what
// fits.
TEST_F(SamplerTest, AGrammarKeepsTheProportions) {
  std::vector<float> logits(VocabularySize(), -100.0F);
  logits[static_cast<size_t>(TokenOf("a"))] = 0.0F;
  logits[static_cast<size_t>(TokenOf("b"))] = std::log(3.0F);
  logits[static_cast<size_t>(TokenOf("z"))] = std::log(20.0F);
  int count = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    auto sampler = NewSampler(
        {.temperature = 1.0F, .seed = seed, .grammar = "root ::= [ab] [cd]"});
    const Token token = *sampler->Sample(logits);
    ASSERT_NE(token, TokenOf("z"));
    count += token == TokenOf("b") ? 1 : 0;
  }
  EXPECT_NEAR(count / 1500.0, 0.75, 0.04);
}

TEST_F(SamplerTest, EndsOnlyWhenTheGrammarIsComplete) {
  auto sampler = NewSampler({.grammar = "root ::= \"ab\" \"c\"?"});
  const Token end = TokenOf("</s>");
  ASSERT_TRUE(model_->IsEndOfGeneration(end));
  std::vector<float> logits(VocabularySize(), 0.0F);
  logits[static_cast<size_t>(end)] = 50.0F;
  EXPECT_EQ(model_->TokenText(*sampler->Sample(logits)), "a");
  EXPECT_EQ(model_->TokenText(*sampler->Sample(logits)), "b");
  EXPECT_EQ(*sampler->Sample(logits), end);
}

TEST_F(SamplerTest, ControlTokensAreNotText) {
  auto sampler = NewSampler({.grammar = "root ::= [^x]+"});
  const Token control = TokenOf("<|im_start|>");
  std::vector<float> logits(VocabularySize(), 0.0F);
  logits[static_cast<size_t>(control)] = 50.0F;
  EXPECT_NE(*sampler->Sample(logits), control);
}

struct Generated {
  std::string text;
  bool ended = false;
};

// Random logits until `open` tokens are out, then closing.
Generated Generate(const Model& model, Sampler& sampler, std::mt19937& random,
                   int open, const std::vector<float>& bias) {
  Generated result;
  int closing_left = -1;
  for (int i = 0; i < 5000; ++i) {
    std::vector<float> logits(bias);
    for (float& logit : logits) {
      logit += static_cast<float>(random() % 20000) / 1000.0F;
    }
    const bool closing = i >= open;
    if (closing && closing_left < 0) closing_left = sampler.ClosingTokens();
    auto token =
        closing ? sampler.SampleClosing(logits) : sampler.Sample(logits);
    if (!token.ok()) {
      ADD_FAILURE() << token.status() << " after " << result.text;
      return result;
    }
    if (closing) {
      EXPECT_GE(--closing_left, 0) << result.text;
    }
    if (model.IsEndOfGeneration(*token)) {
      result.ended = true;
      return result;
    }
    result.text += model.TokenText(*token);
  }
  return result;
}

// Cut off anywhere, the text is completed to valid JSON within the promised
// number of tokens, whatever the model wants.
TEST_F(SamplerTest, ClosingAlwaysEndsInValidJson) {
  std::mt19937 random(11);
  const std::vector<float> flat(VocabularySize(), 0.0F);
  // One that opens brackets for ever where it may.
  std::vector<float> opener(flat);
  for (const char* text : {"{", "[", "\"", ":", ","}) {
    opener[static_cast<size_t>(TokenOf(text))] = 15.0F;
  }
  for (const char* schema : kGoodSchemas) {
    auto grammar = JsonSchemaToGrammar(*model_, schema);
    ASSERT_TRUE(grammar.ok()) << schema;
    for (int open : {0, 1, 3, 7, 20, 60}) {
      for (const auto& bias : {flat, opener}) {
        auto sampler = NewSampler({.grammar = *grammar});
        const Generated out = Generate(*model_, *sampler, random, open, bias);
        ASSERT_TRUE(out.ended) << schema << "\n" << out.text;
        const auto json = ParseJson(out.text, "generated");
        ASSERT_TRUE(json.ok()) << schema << "\n"
                               << out.text << "\n"
                               << json.status();
        EXPECT_TRUE(json->is_object()) << schema << "\n" << out.text;
      }
    }
  }
}

TEST_F(SamplerTest, LongGenerationsStayWithinTheCache) {
  auto grammar = JsonSchemaToGrammar(
      *model_,
      R"({"type":"object","properties":{"s":{"type":"string","maxLength":9000}},"required":["s"]})");
  ASSERT_OK(grammar);
  auto sampler = NewSampler({.grammar = *grammar});
  std::vector<float> logits(VocabularySize(), 0.0F);
  logits[static_cast<size_t>(TokenOf("x"))] = 5.0F;
  std::string text;
  for (int i = 0; i < 20000; ++i) {
    auto token = sampler->Sample(logits);
    ASSERT_OK(token);
    if (model_->IsEndOfGeneration(*token)) break;
    text += model_->TokenText(*token);
  }
  const auto json = ParseJson(text, "generated");
  ASSERT_OK(json);
  EXPECT_EQ((*json)["s"].get<std::string>().size(), 9000U);
}

}  // namespace
}  // namespace nexus::llm
