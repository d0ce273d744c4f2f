#include "nexus/llm/embedder.h"

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

class EmbedderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::TinyModelOptions options;
    options.arch = testing::TinyArch::kBert;
    options.head_count_kv = options.head_count;
    path_ = dir_.File("bert.gguf");
    ASSERT_OK(testing::WriteTinyModel(path_, options));
    ASSERT_OK_AND_ASSIGN(embedder_, LoadEncoder({.path = path_, .threads = 1}));
  }
  std::vector<float> EmbedOne(const std::string& text) {
    auto vectors = embedder_->Embed({&text, 1}, TextRole::kQuery);
    NEXUS_CHECK(vectors.ok());
    return (*vectors)[0];
  }

  ScopedTempDir dir_;
  std::string path_;
  std::unique_ptr<Embedder> embedder_;
};

TEST_F(EmbedderTest, GivesUnitVectors) {
  for (const std::string& text :
       {std::string("weather in oslo"), std::string(), std::string("a"),
        std::string(100000, 'x'), std::string("\xFF\xC3\x28 bytes"),
        std::string("[SEP] [CLS] not markers"), std::string(3, '\0')}) {
    const auto vector = EmbedOne(text);
    EXPECT_EQ(static_cast<int>(vector.size()), embedder_->dimension());
    EXPECT_NEAR(Dot(vector, vector), 1.0, 1e-5);
  }
}

TEST_F(EmbedderTest, BatchesGiveWhatSingleTextsGive) {
  std::vector<std::string> texts;
  for (int i = 0; i < 70; ++i) {
    texts.push_back(std::string(static_cast<size_t>(i % 23) * 5, 'a') +
                    " word " + std::to_string(i));
  }
  ASSERT_OK_AND_ASSIGN(const auto together,
                       embedder_->Embed(texts, TextRole::kDocument));
  ASSERT_EQ(together.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_GT(Dot(together[i], EmbedOne(texts[i])), 0.9999) << i;
  }
  EXPECT_LT(Dot(together[0], together[1]), 0.9999);
  EXPECT_TRUE(embedder_->Embed({}, TextRole::kQuery)->empty());
}

TEST_F(EmbedderTest, SameTextSameBits) {
  EXPECT_EQ(EmbedOne("list the files"), EmbedOne("list the files"));
}

TEST_F(EmbedderTest, PrefixesAreByRole) {
  ASSERT_OK_AND_ASSIGN(
      auto prefixed,
      LoadEncoder({.path = path_, .threads = 1, .query_prefix = "query: "}));
  const std::string text = "files";
  const std::string written = "query: files";
  const auto query = prefixed->Embed({&text, 1}, TextRole::kQuery);
  const auto document = prefixed->Embed({&text, 1}, TextRole::kDocument);
  EXPECT_EQ((*query)[0], EmbedOne(written));
  EXPECT_EQ((*document)[0], EmbedOne(text));
  EXPECT_NE(prefixed->fingerprint(), embedder_->fingerprint());
}

TEST_F(EmbedderTest, RefusesDecodersAndDamagedFiles) {
  const std::string decoder = dir_.File("llama.gguf");
  ASSERT_OK(testing::WriteTinyModel(decoder, {}));
  EXPECT_EQ(LoadEncoder({.path = decoder}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadEncoder({.path = dir_.File("none")}).status().code(),
            StatusCode::kNotFound);
  const std::string text = dir_.File("text.gguf");
  std::ofstream(text) << "not a model";
  EXPECT_EQ(LoadEncoder({.path = text}).status().code(),
            StatusCode::kCorruption);
}

}  // namespace
}  // namespace nexus::llm
