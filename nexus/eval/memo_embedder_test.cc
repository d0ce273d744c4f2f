#include "nexus/eval/memo_embedder.h"

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/route/testing/fake_embedder.h"

namespace nexus::eval {
namespace {

using llm::TextRole;

const std::vector<std::string> kTexts = {"one", "two", "one"};

TEST(MemoEmbedderTest, EmbedsATextOncePerRole) {
  route::FakeEmbedder fake;
  MemoEmbedder memo(&fake);
  ASSERT_OK_AND_ASSIGN(const auto first,
                       memo.Embed({kTexts.data(), 2}, TextRole::kDocument));
  ASSERT_OK_AND_ASSIGN(const auto second,
                       memo.Embed(kTexts, TextRole::kDocument));
  EXPECT_EQ(second[0], first[0]);
  EXPECT_EQ(second[1], first[1]);
  EXPECT_EQ(second[2], first[0]);
  EXPECT_EQ(memo.embedded_count(), 2);
  ASSERT_OK(memo.Embed({kTexts.data(), 1}, TextRole::kQuery));
  EXPECT_EQ(memo.embedded_count(), 3);
  EXPECT_EQ(memo.fingerprint(), fake.fingerprint());
}

TEST(MemoEmbedderTest, AnErrorIsPassedOnAndNotRemembered) {
  route::FakeEmbedder fake;
  fake.error = InternalError("broken");
  MemoEmbedder memo(&fake);
  EXPECT_FALSE(memo.Embed(kTexts, TextRole::kQuery).ok());
  fake.error = Status::Ok();
  EXPECT_OK(memo.Embed(kTexts, TextRole::kQuery));
}

TEST(MemoEmbedderTest, AFileSparesTheNextRun) {
  const ScopedTempDir dir;
  FileSystem& fs = FileSystem::Default();
  const std::string path = dir.File("e.nxembed");
  route::FakeEmbedder fake;
  MemoEmbedder memo(&fake);
  ASSERT_OK_AND_ASSIGN(const auto first,
                       memo.Embed(kTexts, TextRole::kDocument));
  ASSERT_OK(memo.Save(fs, path));
  MemoEmbedder next(&fake);
  ASSERT_OK(next.Load(fs, path));
  ASSERT_OK_AND_ASSIGN(const auto again,
                       next.Embed(kTexts, TextRole::kDocument));
  EXPECT_EQ(again, first);
  EXPECT_EQ(next.embedded_count(), 0);
}

TEST(MemoEmbedderTest, ForeignAndDamagedFilesAreRefused) {
  const ScopedTempDir dir;
  FileSystem& fs = FileSystem::Default();
  const std::string path = dir.File("e.nxembed");
  route::FakeEmbedder fake;
  MemoEmbedder memo(&fake);
  EXPECT_EQ(memo.Load(fs, path).code(), StatusCode::kNotFound);
  ASSERT_OK(memo.Embed(kTexts, TextRole::kDocument));
  ASSERT_OK(memo.Save(fs, path));

  route::FakeEmbedder other("other");
  MemoEmbedder foreign(&other);
  EXPECT_EQ(foreign.Load(fs, path).code(), StatusCode::kIncompatible);

  ASSERT_OK_AND_ASSIGN(const std::string bytes, fs.ReadFile(path));
  for (size_t length = 0; length < bytes.size(); length += 7) {
    ASSERT_OK(WriteFileAtomically(fs, path, bytes.substr(0, length)));
    EXPECT_FALSE(memo.Load(fs, path).ok()) << length;
  }
  std::string flipped = bytes;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  ASSERT_OK(WriteFileAtomically(fs, path, flipped));
  EXPECT_EQ(memo.Load(fs, path).code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace nexus::eval
