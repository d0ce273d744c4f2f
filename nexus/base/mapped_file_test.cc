#include "nexus/base/mapped_file.h"

#include <sys/stat.h>

#include <string>
#include <utility>

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using testing::HasSubstr;

std::string TextOf(const MappedFile& file) {
  return {file.bytes().begin(), file.bytes().end()};
}

class MappedFileTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = dir_.File(name);
    EXPECT_OK(WriteFileAtomically(FileSystem::Default(), path, bytes));
    return path;
  }

  ScopedTempDir dir_;
};

TEST_F(MappedFileTest, ShowsTheWholeFile) {
  const std::string path = Write("a", "hello");
  ASSERT_OK_AND_ASSIGN(const MappedFile file, MappedFile::Open(path));
  EXPECT_EQ(TextOf(file), "hello");
  EXPECT_EQ(file.path(), path);
}

TEST_F(MappedFileTest, RefusesAMissingFile) {
  const Status status = MappedFile::Open(dir_.File("none")).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("none"));
}

TEST_F(MappedFileTest, RefusesAnEmptyFileAFolderAndAPipe) {
  const Status empty = MappedFile::Open(Write("empty", "")).status();
  EXPECT_EQ(empty.code(), StatusCode::kCorruption);
  EXPECT_THAT(empty.message(), HasSubstr("is empty"));

  const Status folder = MappedFile::Open(dir_.path()).status();
  EXPECT_EQ(folder.code(), StatusCode::kCorruption);
  EXPECT_THAT(folder.message(), HasSubstr("found a directory"));

  // Must not wait for a writer.
  ASSERT_EQ(::mkfifo(dir_.File("pipe").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(dir_.File("pipe")).status().code(),
            StatusCode::kCorruption);
}

TEST_F(MappedFileTest, MovesItsBytes) {
  ASSERT_OK_AND_ASSIGN(MappedFile first, MappedFile::Open(Write("a", "one")));
  ASSERT_OK_AND_ASSIGN(MappedFile second, MappedFile::Open(Write("b", "two")));
  MappedFile moved(std::move(first));
  EXPECT_EQ(TextOf(moved), "one");
  moved = std::move(second);
  EXPECT_EQ(TextOf(moved), "two");
  EXPECT_EQ(moved.path(), dir_.File("b"));
}

TEST_F(MappedFileTest, OutlivesTheName) {
  const std::string path = Write("a", "still here");
  ASSERT_OK_AND_ASSIGN(const MappedFile file, MappedFile::Open(path));
  ASSERT_OK(FileSystem::Default().Remove(path));
  EXPECT_EQ(TextOf(file), "still here");
}

TEST_F(MappedFileTest, CountsResidentBytes) {
  const std::string bytes((size_t{64} << 10) + 17, 'x');
  ASSERT_OK_AND_ASSIGN(const MappedFile file,
                       MappedFile::Open(Write("a", bytes)));
  file.Prefetch();
  size_t sum = 0;
  for (const uint8_t byte : file.bytes()) sum += byte;
  EXPECT_EQ(sum, bytes.size() * 'x');
  // Everything was touched a moment ago, and the partial last page isn't
  // counted whole.
  EXPECT_EQ(file.ResidentBytes(), bytes.size());
  EXPECT_EQ(MappedFile().ResidentBytes(), 0U);
}

}  // namespace
}  // namespace nexus
