#include "nexus/llm/reranker.h"

#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/embedder.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

testing::TinyModelOptions BertWithHead(uint32_t outputs) {
  testing::TinyModelOptions options;
  options.arch = testing::TinyArch::kBert;
  options.head_count_kv = options.head_count;
  options.rank_outputs = outputs;
  return options;
}

class RerankerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.File("rank.gguf");
    ASSERT_OK(testing::WriteTinyModel(path_, BertWithHead(1)));
    ASSERT_OK_AND_ASSIGN(reranker_, LoadReranker({.path = path_}));
  }
  float ScoreOne(std::string_view query, const std::string& document) {
    auto scores = reranker_->Score(query, {&document, 1});
    NEXUS_CHECK(scores.ok() && scores->size() == 1);
    return scores->front();
  }

  ScopedTempDir dir_;
  std::string path_;
  std::unique_ptr<Reranker> reranker_;
};

TEST_F(RerankerTest, ReadsBothSides) {
  const float score = ScoreOne("list files", "reads a folder");
  EXPECT_NE(score, ScoreOne("list tiles", "reads a folder"));
  EXPECT_NE(score, ScoreOne("list files", "reads a holder"));
  // The border between the sides counts, not only the letters.
  EXPECT_NE(score, ScoreOne("list files reads", "a folder"));
  EXPECT_EQ(score, ScoreOne("list files", "reads a folder"));
}

TEST_F(RerankerTest, BatchesGiveWhatSinglePairsGive) {
  std::vector<std::string> documents;
  for (int i = 0; i < 40; ++i) {
    documents.push_back(std::string(static_cast<size_t>(i % 23) * 7, 'a') +
                        " word " + std::to_string(i));
  }
  ASSERT_OK_AND_ASSIGN(const auto scores,
                       reranker_->Score("a question", documents));
  ASSERT_EQ(scores.size(), documents.size());
  for (size_t i = 0; i < documents.size(); ++i) {
    EXPECT_NEAR(scores[i], ScoreOne("a question", documents[i]), 1e-3) << i;
  }
  EXPECT_TRUE(reranker_->Score("a question", {})->empty());
}

TEST_F(RerankerTest, CutsLongTextsAndTakesAnyBytes) {
  const std::string query = "abcdefghijklmnopqrstuvwxyz";
  const std::string longer(100'000, 'x');
  // Only the first tokens of each side are read.
  EXPECT_EQ(ScoreOne(longer, "d"), ScoreOne(longer + "y", "d"));
  EXPECT_EQ(ScoreOne(query, longer), ScoreOne(query, longer + "y"));
  for (const std::string& text :
       {std::string(), std::string("\xFF\xC3\x28"), std::string(3, '\0'),
        std::string("[SEP] [CLS] not markers")}) {
    ScoreOne(text, text);  // checks that there is a score
  }
}

TEST_F(RerankerTest, LimitsArePartOfTheFingerprint) {
  ASSERT_OK_AND_ASSIGN(auto shorter,
                       LoadReranker({.path = path_, .query_tokens = 4}));
  EXPECT_NE(shorter->fingerprint(), reranker_->fingerprint());
  EXPECT_FALSE(reranker_->name().empty());
}

TEST_F(RerankerTest, RefusesWhatScoresNoPairs) {
  const auto refuse = [&](const std::string& name,
                          const testing::TinyModelOptions& options) {
    const std::string path = dir_.File(name);
    EXPECT_OK(testing::WriteTinyModel(path, options));
    const Status status = LoadReranker({.path = path}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find(name), std::string::npos);
  };
  refuse("decoder.gguf", {});
  refuse("embedder.gguf", BertWithHead(0));
  refuse("classifier.gguf", BertWithHead(3));
  EXPECT_EQ(LoadReranker({.path = dir_.File("none")}).status().code(),
            StatusCode::kNotFound);
  const std::string text = dir_.File("text.gguf");
  std::ofstream(text) << "not a model";
  EXPECT_EQ(LoadReranker({.path = text}).status().code(),
            StatusCode::kCorruption);
}

TEST_F(RerankerTest, IsNoEmbedder) {
  const Status status = LoadEncoder({.path = path_}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("re-ranker"), std::string::npos);
}

}  // namespace
}  // namespace nexus::llm
