#include "nexus/base/file_system.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"

#include "nexus/base/fault_file_system.h"
#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Fault = FaultFileSystem::Fault;
using Operation = FaultFileSystem::Operation;

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

class FileSystemTest : public testing::Test {
 protected:
  FileSystem& fs_ = FileSystem::Default();
  ScopedTempDir dir_;
};

TEST_F(FileSystemTest, WritesInPiecesAndReadsBack) {
  const std::string path = dir_.File("a");
  ASSERT_OK_AND_ASSIGN(auto file, fs_.NewWritableFile(path));
  EXPECT_OK(file->Append("hello ", 6));
  EXPECT_OK(file->Append("", 0));
  EXPECT_OK(file->Append("world", 5));
  EXPECT_OK(file->Sync());
  EXPECT_OK(file->Close());
  ASSERT_OK_AND_ASSIGN(const std::string text, fs_.ReadFile(path));
  EXPECT_EQ(text, "hello world");
  ASSERT_OK_AND_ASSIGN(const uint64_t size, fs_.FileSize(path));
  EXPECT_EQ(size, 11U);
  EXPECT_EQ(ModeOf(path), 0600U);
}

TEST_F(FileSystemTest, ReadsBytesOfAnyKind) {
  std::string bytes(200'001, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(i % 251);
  ASSERT_OK(WriteFileAtomically(fs_, dir_.File("a"), bytes));
  ASSERT_OK_AND_ASSIGN(const std::string back, fs_.ReadFile(dir_.File("a")));
  EXPECT_EQ(back, bytes);
}

TEST_F(FileSystemTest, NamesThePathOfWhatIsMissing) {
  const std::string path = dir_.File("none");
  EXPECT_FALSE(fs_.Exists(path));
  for (const Status& status :
       {fs_.ReadFile(path).status(), fs_.FileSize(path).status(),
        fs_.Remove(path), fs_.ListDir(path).status(),
        fs_.Rename(path, dir_.File("b")),
        fs_.NewWritableFile(path + "/x").status()}) {
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << status;
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
}

TEST_F(FileSystemTest, RefusesToReadAFolder) {
  EXPECT_EQ(fs_.ReadFile(dir_.path()).status().code(), StatusCode::kIoError);
}

TEST_F(FileSystemTest, MakesFoldersWithParentsForTheOwnerOnly) {
  const std::string path = dir_.File("a/b/c");
  EXPECT_OK(fs_.CreateDirs(path));
  EXPECT_OK(fs_.CreateDirs(path));
  EXPECT_OK(fs_.CreateDirs(path + "/"));
  EXPECT_EQ(ModeOf(dir_.File("a")), 0700U);
  EXPECT_EQ(ModeOf(path), 0700U);
}

TEST_F(FileSystemTest, MakesNoFolderThroughAFile) {
  ASSERT_OK(WriteFileAtomically(fs_, dir_.File("file"), "x"));
  EXPECT_EQ(fs_.CreateDirs(dir_.File("file")).code(), StatusCode::kIoError);
  EXPECT_EQ(fs_.CreateDirs(dir_.File("file/sub")).code(), StatusCode::kIoError);
}

TEST_F(FileSystemTest, ListsNamesInOrder) {
  for (const char* name : {"b", "a", "c"}) {
    ASSERT_OK(WriteFileAtomically(fs_, dir_.File(name), name));
  }
  ASSERT_OK_AND_ASSIGN(const auto names, fs_.ListDir(dir_.path()));
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
}

TEST_F(FileSystemTest, ReportsAFullDisk) {
  if (!fs_.Exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  ASSERT_OK_AND_ASSIGN(auto file, fs_.NewWritableFile("/dev/full"));
  EXPECT_EQ(file->Append("x", 1).code(), StatusCode::kResourceExhausted);
}

TEST(TemporaryNameForTest, StaysBesideThePathAndIsNeverTheSame) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = TemporaryNameFor("/x/block.nxb");
    EXPECT_EQ(name.rfind("/x/block.nxb.tmp.", 0), 0U) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 1000U);
}

class UserCacheDirTest : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("NEXUS_CACHE_DIR");
    ::unsetenv("XDG_CACHE_HOME");
    ::setenv("HOME", "/home/someone", 1);
  }
};

TEST_F(UserCacheDirTest, FollowsTheEnvironmentInOrder) {
  EXPECT_EQ(UserCacheDir(), "/home/someone/.cache/nexus");
  ::setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(UserCacheDir(), "/home/someone/.cache/nexus");
  ::setenv("XDG_CACHE_HOME", "/var/cache", 1);
  EXPECT_EQ(UserCacheDir(), "/var/cache/nexus");
  ::setenv("NEXUS_CACHE_DIR", "/data", 1);
  EXPECT_EQ(UserCacheDir(), "/data");
}

TEST_F(UserCacheDirTest, NeedsNoHome) {
  ::unsetenv("HOME");
  EXPECT_THAT(UserCacheDir(), HasSubstr("/.cache/nexus"));
}

// Old file or whole new file, whatever fails, with nothing left behind.
class AtomicWriteTest : public testing::Test {
 protected:
  AtomicWriteTest() {
    EXPECT_OK(WriteFileAtomically(FileSystem::Default(), path_, old_));
  }

  std::string Read() {
    auto bytes = FileSystem::Default().ReadFile(path_);
    EXPECT_OK(bytes);
    return bytes.ok() ? *bytes : "";
  }
  std::vector<std::string> Names() {
    auto names = FileSystem::Default().ListDir(dir_.path());
    EXPECT_OK(names);
    return names.ok() ? *names : std::vector<std::string>{};
  }

  ScopedTempDir dir_;
  const std::string path_ = dir_.File("file");
  const std::string old_ = "the old content";
  const std::string new_ = std::string(10'000, 'n');
  FaultFileSystem fs_;
};

TEST_F(AtomicWriteTest, ReplacesTheFile) {
  EXPECT_OK(WriteFileAtomically(fs_, path_, new_));
  EXPECT_EQ(Read(), new_);
  EXPECT_THAT(Names(), ElementsAre("file"));
  for (const Operation operation :
       {Operation::kCreate, Operation::kAppend, Operation::kSync,
        Operation::kRename, Operation::kSyncDir}) {
    EXPECT_EQ(fs_.CallCount(operation), 1);
  }
}

TEST_F(AtomicWriteTest, KeepsTheOldFileWhenAStepFails) {
  for (const Operation operation : {Operation::kCreate, Operation::kAppend,
                                    Operation::kSync, Operation::kRename}) {
    for (const Fault fault :
         {Fault::kNoSpace, Fault::kShortWrite, Fault::kIoError}) {
      fs_.FailNth(operation, 1, fault);
      const Status status = WriteFileAtomically(fs_, path_, new_);
      EXPECT_EQ(status.code(), fault == Fault::kIoError
                                   ? StatusCode::kIoError
                                   : StatusCode::kResourceExhausted);
      EXPECT_THAT(status.message(), HasSubstr(path_));
      EXPECT_EQ(Read(), old_);
      EXPECT_THAT(Names(), ElementsAre("file"));
    }
  }
}

TEST_F(AtomicWriteTest, KeepsTheOldFileWhenThePowerGoesBeforeTheRename) {
  for (const Operation operation : {Operation::kCreate, Operation::kAppend,
                                    Operation::kSync, Operation::kRename}) {
    fs_.FailNth(operation, 1, Fault::kCrash);
    EXPECT_EQ(WriteFileAtomically(fs_, path_, new_).code(),
              StatusCode::kIoError);
    EXPECT_TRUE(fs_.crashed());
    EXPECT_EQ(Read(), old_);
    fs_.Restart();
  }
}

TEST_F(AtomicWriteTest, HasTheNewFileWhenThePowerGoesAfterTheRename) {
  fs_.FailNth(Operation::kSyncDir, 1, Fault::kCrash);
  EXPECT_FALSE(WriteFileAtomically(fs_, path_, new_).ok());
  EXPECT_EQ(Read(), new_);
}

// Why the sync comes before the rename: without it the name may survive a crash
// and the bytes not.
TEST_F(AtomicWriteTest, WouldLoseTheFileWithoutItsSync) {
  fs_.FailNth(Operation::kSync, 1, Fault::kLostSync);
  EXPECT_OK(WriteFileAtomically(fs_, path_, new_));
  EXPECT_EQ(Read(), new_);
  fs_.Crash();
  EXPECT_THAT(Read(), IsEmpty());
}

TEST(FaultFileSystemTest, FailsTheNthCallOnly) {
  const ScopedTempDir dir;
  FaultFileSystem fs;
  ASSERT_OK_AND_ASSIGN(auto file, fs.NewWritableFile(dir.File("a")));
  fs.FailNth(Operation::kAppend, 2, Fault::kShortWrite);
  EXPECT_OK(file->Append("1234", 4));
  EXPECT_EQ(file->Append("5678", 4).code(), StatusCode::kResourceExhausted);
  EXPECT_OK(file->Append("9", 1));
  ASSERT_OK_AND_ASSIGN(const std::string text, fs.ReadFile(dir.File("a")));
  EXPECT_EQ(text, "1234569");
}

TEST(FaultFileSystemTest, RefusesEverythingAfterACrash) {
  const ScopedTempDir dir;
  FaultFileSystem fs;
  ASSERT_OK_AND_ASSIGN(auto file, fs.NewWritableFile(dir.File("a")));
  fs.Crash();
  const std::string path = dir.File("a");
  EXPECT_FALSE(fs.Exists(path));
  for (const Status& status :
       {file->Append("x", 1), file->Sync(), file->Close(),
        fs.NewWritableFile(path).status(), fs.ReadFile(path).status(),
        fs.Rename(path, path), fs.SyncDir(dir.path()), fs.Remove(path),
        fs.CreateDirs(path), fs.FileSize(path).status(),
        fs.ListDir(dir.path()).status()}) {
    EXPECT_EQ(status.code(), StatusCode::kIoError);
  }
  fs.Restart();
  EXPECT_TRUE(fs.Exists(path));
}

}  // namespace
}  // namespace nexus
