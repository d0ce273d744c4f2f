#include "nexus/kv/block_writer.h"

#include <filesystem>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/block_store.h"
#include "nexus/kv/testing/faulty_file_system.h"
#include "nexus/kv/testing/sample_block.h"

namespace nexus::kv {
namespace {

using ::nexus::kv::testing::Fault;
using ::nexus::kv::testing::FaultyFileSystem;
using ::nexus::kv::testing::SampleBlock;

// More than the calls of one write, so that loops end by seeing no fault fire.
constexpr int kMaxCalls = 100;

class BlockWriterTest : public ::testing::Test {
 protected:
  bool FolderIsEmpty() const { return std::filesystem::is_empty(dir_.path()); }

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

TEST_F(BlockWriterTest, AFullDiskLeavesNothing) {
  int call = 0;
  for (; call < kMaxCalls; ++call) {
    FaultyFileSystem fs(Fault::kDiskFull, call);
    const auto written = WriteBlockFile(fs, path_, sample_.Contents());
    if (!fs.fired()) {
      EXPECT_OK(written);
      break;
    }
    EXPECT_EQ(written.status().code(), StatusCode::kResourceExhausted);
    EXPECT_TRUE(FolderIsEmpty()) << "call " << call;
  }
  // create, 17 sections and header with padding, sync, close, rename, sync
  // folder
  EXPECT_GT(call, 10);
  EXPECT_LT(call, kMaxCalls);
}

TEST_F(BlockWriterTest, ACrashLeavesNoBlockOrAWholeOne) {
  for (int call = 0; call < kMaxCalls; ++call) {
    const ScopedTempDir dir;
    const std::string path = dir.File("block.nxb");
    FaultyFileSystem fs(Fault::kCrash, call);
    static_cast<void>(WriteBlockFile(fs, path, sample_.Contents()));
    if (std::filesystem::exists(path)) {
      EXPECT_OK(KvBlock::Open(path));
    }
    if (!fs.fired()) return;
  }
  FAIL() << "no call went without a fault";
}

TEST_F(BlockWriterTest, BytesThatTheDiskLostAreFoundOnReading) {
  int fired = 0;
  for (int call = 0; call < kMaxCalls; ++call) {
    FaultyFileSystem fs(Fault::kShortWrite, call);
    ASSERT_OK(WriteBlockFile(fs, path_, sample_.Contents()));
    if (!fs.fired()) break;
    const uint64_t whole = *BlockFileBytes(sample_.Contents());
    if (std::filesystem::file_size(path_) == whole) continue;  // not an Append
    ++fired;
    EXPECT_EQ(KvBlock::Open(path_).status().code(), StatusCode::kCorruption);
  }
  EXPECT_GT(fired, 5);
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
  for (const Fault fault :
       {Fault::kDiskFull, Fault::kCrash, Fault::kShortWrite}) {
    for (int call = 0; call < kMaxCalls; ++call) {
      const ScopedTempDir dir;
      FaultyFileSystem fs(fault, call);
      {
        auto store = BlockStore::Open({.dir = dir.path(), .file_system = &fs});
        ASSERT_OK(store);
        const auto put = (*store)->Put(sample_.Contents());
        if (put.ok()) {
          EXPECT_EQ((*put)->key(), sample_.Key());
        }
      }
      // The next process finds nothing or the whole block, and can store it.
      auto store = BlockStore::Open({.dir = dir.path()});
      ASSERT_OK(store);
      const auto found = (*store)->Find(sample_.Key());
      if (!found.ok()) {
        EXPECT_EQ(found.status().code(), StatusCode::kNotFound)
            << found.status();
      }
      EXPECT_OK((*store)->Put(sample_.Contents()));
      EXPECT_OK((*store)->Find(sample_.Key()));
      if (!fs.fired()) break;
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
