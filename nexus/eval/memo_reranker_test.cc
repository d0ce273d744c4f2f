#include "nexus/eval/memo_reranker.h"

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::eval {
namespace {

// Scores a pair by its lengths.
class LengthReranker : public llm::Reranker {
 public:
  Result<std::vector<float>> Score(
      std::string_view query, std::span<const std::string> documents) override {
    if (!error.ok()) return error;
    std::vector<float> scores;
    for (const std::string& document : documents) {
      scores.push_back(static_cast<float>(query.size()) +
                       100 * static_cast<float>(document.size()));
    }
    return scores;
  }
  std::string name() const override { return "lengths"; }
  std::string fingerprint() const override { return "lengths 1"; }

  Status error;
};

const std::vector<std::string> kDocuments = {"one", "three", "one"};

TEST(MemoRerankerTest, ReadsAPairOnce) {
  LengthReranker fake;
  MemoReranker memo(&fake);
  ASSERT_OK_AND_ASSIGN(const auto first, memo.Score("ask", kDocuments));
  EXPECT_EQ(first, (std::vector<float>{303, 503, 303}));
  const int read = memo.scored_count();
  ASSERT_OK_AND_ASSIGN(const auto again, memo.Score("ask", kDocuments));
  EXPECT_EQ(again, first);
  EXPECT_EQ(memo.scored_count(), read);
  // The same letters, parted elsewhere, are another pair.
  const std::string moved = "kone";
  ASSERT_OK_AND_ASSIGN(const auto other, memo.Score("as", {&moved, 1}));
  EXPECT_EQ(other.front(), 402);
}

TEST(MemoRerankerTest, AnErrorIsPassedOnAndNotRemembered) {
  LengthReranker fake;
  fake.error = InternalError("broken");
  MemoReranker memo(&fake);
  EXPECT_FALSE(memo.Score("ask", kDocuments).ok());
  fake.error = Status::Ok();
  EXPECT_OK(memo.Score("ask", kDocuments));
}

TEST(MemoRerankerTest, AFileSparesTheNextRun) {
  const ScopedTempDir dir;
  FileSystem& fs = FileSystem::Default();
  const std::string path = dir.File("scores");
  LengthReranker fake;
  MemoReranker memo(&fake);
  ASSERT_OK_AND_ASSIGN(const auto first, memo.Score("ask", kDocuments));
  ASSERT_OK(memo.Save(fs, path));
  MemoReranker next(&fake);
  ASSERT_OK(next.Load(fs, path));
  fake.error = InternalError("not to be asked again");
  ASSERT_OK_AND_ASSIGN(const auto again, next.Score("ask", kDocuments));
  EXPECT_EQ(again, first);
}

}  // namespace
}  // namespace nexus::eval
