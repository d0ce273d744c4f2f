#include "nexus/kv/block_writer.h"

#include <filesystem>

#include "gmock/gmock.h"

#include "nexus/base/fault_file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/block_store.h"
#include "nexus/kv/testing/sample_block.h"

namespace nexus::kv {
namespace {

using ::nexus::kv::testing::SampleBlock;
using Fault = FaultFileSystem::Fault;
using Operation = FaultFileSystem::Operation;

constexpr Operation kOperations[] = {Operation::kCreate, Operation::kAppend,
                                     Operation::kSync, Operation::kRename,
                                     Operation::kSyncDir};

class BlockWriterTest : public ::testing::Test {
 protected:
  bool FolderIsEmpty() const { return std::filesystem::is_empty(dir_.path()); }

  // Calls that one undisturbed write makes.
  int CallsOf(Operation operation) {
    const ScopedTempDir dir;
    FaultFileSystem fs;
    EXPECT_OK(WriteBlockFile(fs, dir.File("block.nxb"), sample_.Contents()));
    EXPECT_GT(fs.CallCount(operation), 0);
    return fs.CallCount(operation);
  }

  ScopedTempDir dir_;
  SampleBlock sample_;
  const std::string path_ = dir_.File("block.nxb");
};

TEST_F(BlockWriterTest, SizeIsKnownBeforehand) {
  ASSERT_OK_AND_ASSIGN(const uint64_t planned,
                       BlockFileBytes(sample_.Contents()));
  ASSERT_OK_AND_ASSIGN(
      const uint64_t written,
      WriteBlockFile(FileSystem::Default(), path_, sample_.Contents()));
  EXPECT_EQ(written, planned);
  EXPECT_EQ(std::filesystem::file_size(path_), planned);
}

TEST_F(BlockWriterTest, AFailingDiskLeavesNothing) {
  for (const Fault fault :
       {Fault::kNoSpace, Fault::kShortWrite, Fault::kIoError}) {
    for (const Operation operation : kOperations) {
      for (int nth = 1; nth <= CallsOf(operation); ++nth) {
        FaultFileSystem fs;
        fs.FailNth(operation, nth, fault);
        const auto written = WriteBlockFile(fs, path_, sample_.Contents());
        EXPECT_FALSE(written.ok());
        EXPECT_EQ(written.status().code(), fault == Fault::kIoError
                                               ? StatusCode::kIoError
                                               : StatusCode::kResourceExhausted)
            << written.status();
        EXPECT_TRUE(FolderIsEmpty()) << "call " << nth;
      }
    }
  }
}

TEST_F(BlockWriterTest, ACrashLeavesNoBlockOrAWholeOne) {
  for (const Operation operation : kOperations) {
    for (int nth = 1; nth <= CallsOf(operation); ++nth) {
      FaultFileSystem fs;
      fs.FailNth(operation, nth, Fault::kCrash);
      EXPECT_FALSE(WriteBlockFile(fs, path_, sample_.Contents()).ok());
      if (std::filesystem::exists(path_)) {
        EXPECT_OK(KvBlock::Open(path_));
        std::filesystem::remove(path_);
      }
    }
  }
}

TEST_F(BlockWriterTest, ASyncThatLiedIsFoundOnReading) {
  FaultFileSystem fs;
  fs.FailNth(Operation::kSync, 1, Fault::kLostSync);
  ASSERT_OK(WriteBlockFile(fs, path_, sample_.Contents()));
  fs.Crash();
  EXPECT_FALSE(KvBlock::Open(path_).ok());
}

// A write that was acknowledged and lost with the power: zeros where data
// should be, any tail missing.
TEST_F(BlockWriterTest, ALostFsyncIsFoundOnReading) {
  ASSERT_OK_AND_ASSIGN(
      const uint64_t size,
      WriteBlockFile(FileSystem::Default(), path_, sample_.Contents()));
  for (uint64_t kept = 0; kept < size; kept += kBlockAlignBytes) {
    std::filesystem::resize_file(path_, kept);
    std::filesystem::resize_file(path_, size);  // the rest reads as zeros
    EXPECT_EQ(KvBlock::Open(path_).status().code(), StatusCode::kCorruption)
        << kept;
    ASSERT_OK(WriteBlockFile(FileSystem::Default(), path_, sample_.Contents()));
  }
}

TEST_F(BlockWriterTest, TheStoreComesOutOfEveryFaultUsable) {
  for (const Fault fault : {Fault::kNoSpace, Fault::kLostSync, Fault::kCrash}) {
    for (const Operation operation : kOperations) {
      const ScopedTempDir dir;
      FaultFileSystem fs;
      {
        auto store = BlockStore::Open({.dir = dir.path(), .file_system = &fs});
        ASSERT_OK(store);
        fs.FailNth(operation, 1, fault);
        static_cast<void>((*store)->Put(sample_.Contents()));
        fs.Crash();
      }
      // The next process finds the whole block, or none, or says once that it
      // is damaged; then it can store it.
      auto store = BlockStore::Open({.dir = dir.path()});
      ASSERT_OK(store);
      if (!(*store)->Find(sample_.Key()).ok()) {
        EXPECT_EQ((*store)->Find(sample_.Key()).status().code(),
                  StatusCode::kNotFound);
      }
      EXPECT_OK((*store)->Put(sample_.Contents()));
      EXPECT_OK((*store)->Find(sample_.Key()));
    }
  }
}

TEST_F(BlockWriterTest, RefusesContentsThatContradictThemselves) {
  const auto code = [&](const BlockContents& contents) {
    return WriteBlockFile(FileSystem::Default(), path_, contents)
        .status()
        .code();
  };
  BlockContents no_tokens = sample_.Contents();
  no_tokens.tokens = {};
  EXPECT_EQ(code(no_tokens), StatusCode::kInvalidArgument);
  BlockContents one_layer_less = sample_.Contents();
  one_layer_less.k = one_layer_less.k.first(1);
  EXPECT_EQ(code(one_layer_less), StatusCode::kInvalidArgument);
  BlockContents fewer_tokens = sample_.Contents();
  fewer_tokens.tokens = fewer_tokens.tokens.first(2);
  EXPECT_EQ(code(fewer_tokens), StatusCode::kInvalidArgument);
  BlockContents short_profile = sample_.Contents();
  short_profile.sensitivity = short_profile.sensitivity.first(2);
  EXPECT_EQ(code(short_profile), StatusCode::kInvalidArgument);
  BlockContents moved_splice = sample_.Contents();
  moved_splice.metadata.position = 3;
  EXPECT_EQ(code(moved_splice), StatusCode::kInvalidArgument);
  EXPECT_TRUE(FolderIsEmpty());
}

}  // namespace
}  // namespace nexus::kv
