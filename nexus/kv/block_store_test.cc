#include "nexus/kv/block_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/fault_file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/sqlite_db.h"
#include "nexus/kv/testing/sample_block.h"

namespace nexus::kv {
namespace {

using ::nexus::kv::testing::SampleBlock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The n-th of a series of blocks, each with a key of its own.
SampleBlock Nth(int n, int generation = 0) {
  return SampleBlock({.first_token = 1000 * (n + 1),
                      .generation = generation,
                      .tool_name = "tool" + std::to_string(n)});
}

// Counts what a look-up costs.
class CountingFileSystem : public FaultFileSystem {
 public:
  Result<std::vector<std::string>> ListDir(const std::string& path) override {
    ++list_calls;
    return FaultFileSystem::ListDir(path);
  }
  std::atomic<int> list_calls = 0;
};

class BlockStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<BlockStore> OpenStore(uint64_t max_bytes = 1 << 20,
                                        FileSystem* file_system = nullptr) {
    auto store = BlockStore::Open({.dir = dir_.path(),
                                   .max_bytes = max_bytes,
                                   .file_system = file_system});
    EXPECT_OK(store);
    return store.ok() ? *std::move(store) : nullptr;
  }

  static uint64_t FileBytes() {
    const SampleBlock sample = Nth(0);
    return *BlockFileBytes(sample.Contents());
  }

  // Names of tools, most recently used first.
  static std::vector<std::string> Tools(BlockStore& store) {
    std::vector<std::string> tools;
    const auto infos = store.List();
    EXPECT_OK(infos);
    for (const BlockInfo& info : *infos) tools.push_back(info.tool_name);
    return tools;
  }

  std::vector<std::string> FilesEndingIn(const std::string& suffix) {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(suffix)) found.push_back(name);
    }
    return found;
  }

  void Overwrite(const std::string& path, size_t offset, char value) {
    std::FILE* file = std::fopen(path.c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    ASSERT_EQ(std::fseek(file, static_cast<long>(offset), SEEK_SET), 0);
    ASSERT_EQ(std::fputc(value, file), static_cast<unsigned char>(value));
    ASSERT_EQ(std::fclose(file), 0);
  }

  // Runs `body` in a child process; it returns whether all went well.
  template <typename Body>
  static pid_t InChild(Body body) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(body() ? 0 : 1);
    return child;
  }
  static bool Succeeded(pid_t child) {
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
  }

  ScopedTempDir dir_;
};

TEST_F(BlockStoreTest, APrivateBlockTakesNobodysPlace) {
  const auto store = OpenStore(FileBytes());  // room for one
  ASSERT_OK(store->Put(Nth(0).Contents()));
  const SampleBlock sample = Nth(1);
  ASSERT_OK_AND_ASSIGN(const auto block,
                       store->WritePrivate(sample.Contents()));
  EXPECT_EQ(block->metadata().Key(), sample.Contents().metadata.Key());
  // No file, no row, nothing evicted; and the mapping still reads.
  EXPECT_FALSE(std::filesystem::exists(block->path()));
  EXPECT_FALSE(store->Contains(sample.Contents().metadata.Key()));
  EXPECT_TRUE(store->Contains(Nth(0).Contents().metadata.Key()));
  ASSERT_OK_AND_ASSIGN(const auto stored, store->List());
  EXPECT_THAT(stored, SizeIs(1));
  EXPECT_EQ(store->TotalBytes(), FileBytes());
  EXPECT_FALSE(block->tokens().empty());
}

TEST_F(BlockStoreTest, APrivateBlockOnAFullDiskIsAnError) {
  FaultFileSystem full;
  const auto store = OpenStore(1 << 20, &full);
  full.FailNth(FaultFileSystem::Operation::kAppend, 1,
               FaultFileSystem::Fault::kNoSpace);
  EXPECT_FALSE(store->WritePrivate(Nth(0).Contents()).ok());
  EXPECT_THAT(*FileSystem::Default().ListDir(dir_.path()),
              ::testing::Not(::testing::Contains(HasSubstr(".nxb"))));
}

TEST_F(BlockStoreTest, FindsWhatWasPut) {
  const auto store = OpenStore();
  const SampleBlock sample = Nth(1);
  EXPECT_EQ(store->Find(sample.Key()).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(store->Contains(sample.Key()));
  ASSERT_OK(store->Put(sample.Contents()));
  EXPECT_TRUE(store->Contains(sample.Key()));
  ASSERT_OK_AND_ASSIGN(const auto block, store->Find(sample.Key()));
  EXPECT_EQ(block->metadata(), sample.Contents().metadata);
  EXPECT_OK(store->index_status());
}

TEST_F(BlockStoreTest, KeepsBlocksAndCountsOverReopening) {
  const SampleBlock sample = Nth(1);
  {
    const auto store = OpenStore();
    ASSERT_OK(store->Put(sample.Contents()));
    ASSERT_OK(store->Find(sample.Key()));
    ASSERT_OK(store->Find(sample.Key()));
  }
  const auto store = OpenStore();
  ASSERT_OK_AND_ASSIGN(const auto infos, store->List());
  ASSERT_THAT(infos, SizeIs(1));
  EXPECT_EQ(infos[0].hits, 2);
  EXPECT_GT(infos[0].last_use_unix, 0);
  EXPECT_EQ(infos[0].tool_name, "tool1");
  EXPECT_EQ(infos[0].bytes, FileBytes());
  EXPECT_EQ(store->TotalBytes(), FileBytes());
}

TEST_F(BlockStoreTest, KeepsASoundBlockThatIsAlreadyThere) {
  const auto store = OpenStore();
  const SampleBlock sample = Nth(1);
  ASSERT_OK_AND_ASSIGN(const auto first, store->Put(sample.Contents()));
  ASSERT_OK_AND_ASSIGN(const auto second, store->Put(sample.Contents()));
  EXPECT_EQ(first, second);
}

TEST_F(BlockStoreTest, ReplacesABlockThatIsInUse) {
  const auto store = OpenStore();
  SampleBlock sample = Nth(1);
  ASSERT_OK_AND_ASSIGN(const auto before, store->Put(sample.Contents()));
  sample.sensitivity()[0] = 7.0F;
  ASSERT_OK_AND_ASSIGN(const auto after,
                       store->Put(sample.Contents(), {.replace = true}));
  EXPECT_EQ(before->sensitivity()[0], 0.0F);
  EXPECT_EQ(after->sensitivity()[0], 7.0F);
  ASSERT_OK_AND_ASSIGN(const auto found, store->Find(sample.Key()));
  EXPECT_EQ(found, after);
  EXPECT_EQ(store->TotalBytes(), FileBytes());
}

TEST_F(BlockStoreTest, KeepsTheOldBlockWhenReplacingFails) {
  using Operation = FaultFileSystem::Operation;
  FaultFileSystem disk;
  const auto store = OpenStore(1 << 20, &disk);
  const SampleBlock sample = Nth(1);
  ASSERT_OK(store->Put(sample.Contents()));
  for (const Operation operation : {Operation::kCreate, Operation::kAppend,
                                    Operation::kSync, Operation::kRename}) {
    disk.FailNth(operation, 1, FaultFileSystem::Fault::kNoSpace);
    EXPECT_EQ(store->Put(sample.Contents(), {.replace = true}).status().code(),
              StatusCode::kResourceExhausted);
    EXPECT_OK(store->Find(sample.Key()));
    EXPECT_OK(OpenStore()->Find(sample.Key()));
  }
}

TEST_F(BlockStoreTest, DoesNotOverwriteABlockOfANewerNexus) {
  const auto store = OpenStore();
  const SampleBlock sample = Nth(1);
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto block, store->Put(sample.Contents()));
    path = block->path();
  }
  FileSystem& disk = FileSystem::Default();
  ASSERT_OK_AND_ASSIGN(std::string newer, disk.ReadFile(path));
  StoreLittle(kBlockFormatVersion + 1,
              reinterpret_cast<uint8_t*>(&newer[kHeaderMinReaderOffset]));
  testing::Reseal(&newer);
  ASSERT_OK(WriteFileAtomically(disk, path, newer));
  for (const bool replace : {false, true}) {
    const Status put =
        store->Put(sample.Contents(), {.replace = replace}).status();
    EXPECT_EQ(put.code(), StatusCode::kIncompatible);
    EXPECT_THAT(put.message(), HasSubstr("made by a newer Nexus"));
    EXPECT_THAT(put.message(), HasSubstr(path));
  }
  ASSERT_OK_AND_ASSIGN(const std::string kept, disk.ReadFile(path));
  EXPECT_EQ(kept, newer);
}

// What the engine asks before the first token: a variant, and one recipe after
// the other.
TEST_F(BlockStoreTest, LooksUpManyKeysWithoutListingTheFolder) {
  for (const bool with_index : {true, false}) {
    if (!with_index) {
      std::filesystem::remove(dir_.File("index.sqlite"));
      std::filesystem::create_directory(dir_.File("index.sqlite"));
    }
    CountingFileSystem disk;
    const auto store = OpenStore(1 << 20, &disk);
    EXPECT_EQ(store->index_status().ok(), with_index);
    ASSERT_OK(store->Put(Nth(0).Contents()));
    std::filesystem::last_write_time(
        dir_.path(),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
    disk.list_calls = 0;
    for (int n = 1; n <= 10; ++n) {
      EXPECT_FALSE(store->Contains(Nth(n).Key()));
    }
    EXPECT_TRUE(store->Contains(Nth(0).Key()));
    EXPECT_OK(store->Find(Nth(0).Key()));
    EXPECT_EQ(disk.list_calls, 1);
  }
}

// Also within the tick of the file system's clock in which it looked before.
TEST_F(BlockStoreTest, SeesAtOnceWhatAnotherStoreDoes) {
  const auto store = OpenStore();
  const auto other = OpenStore();
  for (int i = 0; i < 20; ++i) {
    // Newer generations, too, are found by name.
    const SampleBlock sample = Nth(i, i % 2);
    EXPECT_FALSE(store->Contains(sample.Key()));
    ASSERT_OK(other->Put(sample.Contents()));
    EXPECT_TRUE(store->Contains(sample.Key()));
    ASSERT_OK(other->Remove(sample.Key()));
    EXPECT_FALSE(store->Contains(sample.Key()));
  }
}

TEST_F(BlockStoreTest, FindsNewestGenerationOrThePinnedOne) {
  const auto store = OpenStore();
  ASSERT_OK(store->Put(Nth(1, 0).Contents()));
  ASSERT_OK(store->Put(Nth(1, 12).Contents()));
  ASSERT_OK(store->Put(Nth(1, 3).Contents()));
  const BlockKey key = Nth(1).Key();
  ASSERT_OK_AND_ASSIGN(auto block, store->Find(key));
  EXPECT_EQ(block->metadata().generation, 12);
  ASSERT_OK_AND_ASSIGN(block, store->Find(key, {.generation = 3}));
  EXPECT_EQ(block->metadata().generation, 3);
  EXPECT_EQ(store->Find(key, {.generation = 4}).status().code(),
            StatusCode::kNotFound);
  ASSERT_OK(store->Remove(key));
  EXPECT_THAT(FilesEndingIn(".nxb"), IsEmpty());
  EXPECT_EQ(store->Remove(key).code(), StatusCode::kNotFound);
}

TEST_F(BlockStoreTest, ANewGenerationRetiresTheOlderOnes) {
  const auto store = OpenStore();
  ASSERT_OK(store->Put(Nth(1, 0).Contents()));
  ASSERT_OK(store->Put(Nth(1, 3).Contents()));
  ASSERT_OK_AND_ASSIGN(const auto mapped, store->Find(Nth(1).Key()));
  ASSERT_OK(store->Put(Nth(1, 2).Contents(), {.retire_older = true}));
  EXPECT_THAT(FilesEndingIn("-0.nxb"), IsEmpty());
  EXPECT_THAT(FilesEndingIn("-3.nxb"), SizeIs(1));
  ASSERT_OK(store->Put(Nth(1, 4).Contents(), {.retire_older = true}));
  EXPECT_THAT(FilesEndingIn(".nxb"), SizeIs(1));
  EXPECT_EQ(store->TotalBytes(), FileBytes());
  EXPECT_EQ(mapped->metadata().generation, 3);
  EXPECT_EQ(mapped->tokens()[0], 2000);
  ASSERT_OK_AND_ASSIGN(const auto infos, store->List());
  ASSERT_THAT(infos, SizeIs(1));
  EXPECT_EQ(infos[0].generation, 4);
  EXPECT_EQ(infos[0].hits, 1);
}

TEST_F(BlockStoreTest, ReplacingABlockDropsWhatWasLearnedOnTopOfTheOldOne) {
  const auto store = OpenStore();
  ASSERT_OK(store->Put(Nth(1, 0).Contents()));
  ASSERT_OK(store->Put(Nth(1, 5).Contents()));
  ASSERT_OK(store->Put(Nth(1, 0).Contents(), {.replace = true}));
  ASSERT_OK_AND_ASSIGN(const auto block, store->Find(Nth(1).Key()));
  EXPECT_EQ(block->metadata().generation, 0);
}

TEST_F(BlockStoreTest, KeepsTheOldGenerationWhenTheNewOneCannotBeWritten) {
  using Operation = FaultFileSystem::Operation;
  FaultFileSystem disk;
  const auto store = OpenStore(1 << 20, &disk);
  ASSERT_OK(store->Put(Nth(1, 0).Contents()));
  for (const Operation operation :
       {Operation::kCreate, Operation::kAppend, Operation::kSync,
        Operation::kRename, Operation::kSyncDir}) {
    disk.FailNth(operation, 1, FaultFileSystem::Fault::kNoSpace);
    EXPECT_EQ(store->Put(Nth(1, 1).Contents(), {.retire_older = true})
                  .status()
                  .code(),
              StatusCode::kResourceExhausted);
    ASSERT_OK_AND_ASSIGN(const auto block, store->Find(Nth(1).Key()));
    EXPECT_EQ(block->metadata().generation, 0);
  }
}

TEST_F(BlockStoreTest, PassesOverADamagedGenerationForTheOlderOne) {
  const auto store = OpenStore();
  ASSERT_OK(store->Put(Nth(1, 0).Contents()));
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto newest, store->Put(Nth(1, 1).Contents()));
    path = newest->path();
  }
  Overwrite(path, std::filesystem::file_size(path) - 64, 99);
  ASSERT_OK_AND_ASSIGN(const auto block, store->Find(Nth(1).Key()));
  EXPECT_EQ(block->metadata().generation, 0);
  EXPECT_THAT(FilesEndingIn(".corrupt"), SizeIs(1));
  EXPECT_THAT(FilesEndingIn(".nxb"), SizeIs(1));
}

TEST_F(BlockStoreTest, EvictsLeastRecentlyUsedFirst) {
  const auto store = OpenStore(3 * FileBytes());
  for (int i = 0; i < 3; ++i) ASSERT_OK(store->Put(Nth(i).Contents()));
  ASSERT_OK(store->Find(Nth(0).Key()));
  EXPECT_THAT(Tools(*store), ElementsAre("tool0", "tool2", "tool1"));
  ASSERT_OK(store->Put(Nth(3).Contents()));
  EXPECT_THAT(Tools(*store), ElementsAre("tool3", "tool0", "tool2"));
  EXPECT_EQ(store->Find(Nth(1).Key()).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(FilesEndingIn(".nxb"), SizeIs(3));
  EXPECT_LE(store->TotalBytes(), store->max_bytes());
}

// Most recently used isn't most used: a block that a tool list touched once
// goes before one that every conversation needs.
TEST_F(BlockStoreTest, EvictsTheBlockOfTheLeastValue) {
  const auto store = OpenStore(3 * FileBytes());
  for (int i = 0; i < 3; ++i) ASSERT_OK(store->Put(Nth(i).Contents()));
  for (int use = 0; use < 5; ++use) ASSERT_OK(store->Find(Nth(0).Key()));
  for (int use = 0; use < 5; ++use) ASSERT_OK(store->Find(Nth(1).Key()));
  ASSERT_OK(store->Find(Nth(2).Key()));
  EXPECT_THAT(Tools(*store), ElementsAre("tool2", "tool1", "tool0"));
  ASSERT_OK(store->Put(Nth(3).Contents()));
  EXPECT_THAT(Tools(*store), ElementsAre("tool3", "tool1", "tool0"));
}

// Of two blocks used alike the one that costs less for the same tokens stays.
TEST_F(BlockStoreTest, EvictsTheBlockThatCostsMoreForItsTokens) {
  const auto store = OpenStore(1 << 20);
  const SampleBlock small = Nth(0);
  const SampleBlock large(
      {.k_elements = 64, .first_token = 7000, .tool_name = "large"});
  BlockContents contents = large.Contents();
  contents.sensitivity = {};
  contents.v_m2 = {};
  ASSERT_OK(store->Put(small.Contents()));
  ASSERT_OK(store->Put(contents));
  const uint64_t total = store->TotalBytes();
  const auto limited = OpenStore(total);
  ASSERT_OK(limited->Put(Nth(1).Contents()));
  EXPECT_THAT(Tools(*limited), ElementsAre("tool1", "tool0"));
}

// A table of before the column: what it knows of uses counts.
TEST_F(BlockStoreTest, TakesUpAnIndexWithoutHeat) {
  {
    const auto store = OpenStore();
    for (int i = 0; i < 3; ++i) ASSERT_OK(store->Put(Nth(i).Contents()));
    for (int use = 0; use < 3; ++use) ASSERT_OK(store->Find(Nth(0).Key()));
  }
  {
    ASSERT_OK_AND_ASSIGN(SqliteDb db,
                         SqliteDb::Open(dir_.File("index.sqlite"), 1000));
    ASSERT_OK(db.Execute("ALTER TABLE blocks DROP COLUMN heat"));
  }
  const auto store = OpenStore(3 * FileBytes());
  EXPECT_OK(store->index_status());
  ASSERT_OK(store->Find(Nth(1).Key()));
  ASSERT_OK(store->Put(Nth(3).Contents()));
  EXPECT_THAT(Tools(*store), ElementsAre("tool3", "tool1", "tool0"));
}

TEST_F(BlockStoreTest, NeverEvictsABlockInUse) {
  const auto store = OpenStore(2 * FileBytes());
  ASSERT_OK_AND_ASSIGN(const auto held, store->Put(Nth(0).Contents()));
  ASSERT_OK(store->Put(Nth(1).Contents()));
  ASSERT_OK(store->Put(Nth(2).Contents()));
  EXPECT_THAT(Tools(*store), ElementsAre("tool2", "tool0"));
  EXPECT_EQ(held->tokens()[0], 1000);
}

TEST_F(BlockStoreTest, RefusesABlockAboveTheLimit) {
  const auto store = OpenStore(FileBytes() - 1);
  EXPECT_EQ(store->Put(Nth(0).Contents()).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_THAT(FilesEndingIn(".nxb"), IsEmpty());
}

TEST_F(BlockStoreTest, QuarantinesADamagedBlockOnce) {
  const SampleBlock sample = Nth(1);
  const auto store = OpenStore();
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto block, store->Put(sample.Contents()));
    path = block->path();
  }
  Overwrite(path, FileBytes() - 64, 'X');
  const auto damaged = store->Find(sample.Key());
  EXPECT_EQ(damaged.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(damaged.status().message(), HasSubstr(path));
  EXPECT_EQ(store->Find(sample.Key()).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(FilesEndingIn(".corrupt"), SizeIs(1));
  EXPECT_THAT(Tools(*store), IsEmpty());
  // The caller compiles again.
  ASSERT_OK(store->Put(sample.Contents()));
  EXPECT_OK(store->Find(sample.Key()));
}

TEST_F(BlockStoreTest, QuarantinesABlockUnderAnotherName) {
  const auto store = OpenStore();
  ASSERT_OK_AND_ASSIGN(auto one, store->Put(Nth(1).Contents()));
  ASSERT_OK_AND_ASSIGN(auto two, store->Put(Nth(2).Contents()));
  std::filesystem::copy_file(one->path(), two->path(),
                             std::filesystem::copy_options::overwrite_existing);
  one.reset();
  two.reset();
  EXPECT_EQ(store->Find(Nth(2).Key()).status().code(), StatusCode::kCorruption);
  EXPECT_OK(store->Find(Nth(1).Key()));
}

TEST_F(BlockStoreTest, RefusesABlockOfAnotherModel) {
  const auto store = OpenStore();
  const SampleBlock sample = Nth(1);
  ASSERT_OK(store->Put(sample.Contents()));
  Fingerprint expected = sample.Contents().metadata.fingerprint;
  expected.rope = "half-split 64 of 64, base 10000";
  const auto found = store->Find(sample.Key(), {.expected = &expected});
  EXPECT_EQ(found.status().code(), StatusCode::kIncompatible);
  EXPECT_THAT(found.status().message(), HasSubstr("rope: has"));
}

TEST_F(BlockStoreTest, RebuildsAMissingIndexFromTheFiles) {
  {
    const auto store = OpenStore();
    for (int i = 0; i < 3; ++i) ASSERT_OK(store->Put(Nth(i).Contents()));
  }
  std::filesystem::remove(dir_.File("index.sqlite"));
  const auto store = OpenStore();
  EXPECT_THAT(Tools(*store), SizeIs(3));
  EXPECT_OK(store->Find(Nth(2).Key()));
}

TEST_F(BlockStoreTest, MovesADamagedIndexAsideAndRebuilds) {
  {
    const auto store = OpenStore();
    ASSERT_OK(store->Put(Nth(1).Contents()));
  }
  for (size_t i = 0; i < 64; ++i) {
    Overwrite(dir_.File("index.sqlite"), i, 'Z');
  }
  const auto store = OpenStore();
  EXPECT_OK(store->index_status());
  EXPECT_THAT(Tools(*store), ElementsAre("tool1"));
  EXPECT_THAT(FilesEndingIn(".damaged"), SizeIs(1));
}

TEST_F(BlockStoreTest, SurvivesAnIndexDamagedAnywhere) {
  {
    const auto store = OpenStore();
    for (int i = 0; i < 3; ++i) ASSERT_OK(store->Put(Nth(i).Contents()));
  }
  const std::string path = dir_.File("index.sqlite");
  const auto bytes = std::filesystem::file_size(path);
  for (uintmax_t page = 0; page < bytes; page += 4096) {
    for (uintmax_t i = page; i < std::min(page + 512, bytes); ++i) {
      Overwrite(path, i, static_cast<char>(0xA5));
    }
    const auto store = OpenStore();
    for (int i = 0; i < 3; ++i) EXPECT_OK(store->Find(Nth(i).Key()));
    EXPECT_THAT(Tools(*store), SizeIs(3));
  }
}

TEST_F(BlockStoreTest, MovesAnIndexOfANewerNexusAside) {
  {
    const auto store = OpenStore();
    ASSERT_OK(store->Put(Nth(1).Contents()));
  }
  // user_version stands at offset 60 of an SQLite file, big-endian.
  Overwrite(dir_.File("index.sqlite"), 63, 99);
  const auto store = OpenStore();
  EXPECT_OK(store->index_status());
  EXPECT_THAT(Tools(*store), ElementsAre("tool1"));
  EXPECT_THAT(FilesEndingIn(".newer"), SizeIs(1));
}

TEST_F(BlockStoreTest, GoesOnWithoutAnIndex) {
  // A folder in its place: SQLite can neither open nor replace it.
  std::filesystem::create_directory(dir_.File("index.sqlite"));
  const auto store = OpenStore(2 * FileBytes());
  EXPECT_FALSE(store->index_status().ok());
  for (int i = 0; i < 3; ++i) ASSERT_OK(store->Put(Nth(i).Contents()));
  EXPECT_OK(store->Find(Nth(2).Key()));
  EXPECT_THAT(Tools(*store), SizeIs(2));
  EXPECT_LE(store->TotalBytes(), store->max_bytes());
  EXPECT_FALSE(store->PutSetting("a", "b").ok());
  EXPECT_FALSE(store->GetSetting("a").ok());
}

TEST_F(BlockStoreTest, OpeningSeesFilesComeAndGo) {
  std::string file;
  {
    const auto store = OpenStore();
    ASSERT_OK_AND_ASSIGN(const auto block, store->Put(Nth(1).Contents()));
    ASSERT_OK(store->Put(Nth(2).Contents()));
    ASSERT_OK(store->Find(Nth(2).Key()));
    file = block->path();
  }
  std::filesystem::remove(file);
  const auto store = OpenStore();
  ASSERT_OK_AND_ASSIGN(const auto infos, store->List());
  ASSERT_THAT(infos, SizeIs(1));
  EXPECT_EQ(infos[0].tool_name, "tool2");
  EXPECT_EQ(infos[0].hits, 1);
}

TEST_F(BlockStoreTest, SettingsLastAndAreNotFoundBefore) {
  {
    const auto store = OpenStore();
    EXPECT_EQ(store->GetSetting("attention").status().code(),
              StatusCode::kNotFound);
    ASSERT_OK(store->PutSetting("attention", "plain"));
    ASSERT_OK(store->PutSetting("attention", "flash"));
  }
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       OpenStore()->GetSetting("attention"));
  EXPECT_EQ(text, "flash");
}

TEST_F(BlockStoreTest, TakesOnlyItsOwnNamesForBlocks) {
  const std::string key(64, 'a');
  ASSERT_TRUE(ParseFileName(FileNameOf(key, 12)).has_value());
  EXPECT_EQ(ParseFileName(FileNameOf(key, 12))->key_hex, key);
  EXPECT_EQ(ParseFileName(FileNameOf(key, 12))->generation, 12);
  for (const std::string& name :
       {std::string("index.sqlite"), key + ".nxb", key + "-.nxb",
        key + "--1.nxb", key + "-07.nxb", key + "-1x.nxb",
        key + "-99999999999.nxb", key + "-1.nxb.corrupt",
        key.substr(1) + "-1.nxb", "A" + key.substr(1) + "-1.nxb"}) {
    EXPECT_FALSE(ParseFileName(name).has_value()) << name;
  }
}

TEST_F(BlockStoreTest, RemovesTemporaryFilesOfDeadWriters) {
  const std::string old_file =
      dir_.File(std::string(64, 'a') + "-0.nxb.tmp.0123456789abcdef");
  const std::string new_file =
      dir_.File(std::string(64, 'b') + "-0.nxb.tmp.0123456789abcdef");
  for (const std::string& path : {old_file, new_file}) {
    ASSERT_OK(FileSystem::Default().NewWritableFile(path));
  }
  std::filesystem::last_write_time(
      old_file,
      std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  const auto store = OpenStore();
  EXPECT_FALSE(std::filesystem::exists(old_file));
  EXPECT_TRUE(std::filesystem::exists(new_file));
}

TEST_F(BlockStoreTest, OpenNeedsAUsableFolder) {
  EXPECT_EQ(BlockStore::Open({}).status().code(), StatusCode::kInvalidArgument);
  const std::string file = dir_.File("plain");
  ASSERT_OK(FileSystem::Default().NewWritableFile(file));
  EXPECT_FALSE(BlockStore::Open({.dir = file}).ok());
  EXPECT_FALSE(BlockStore::Open({.dir = file + "/sub"}).ok());
}

TEST_F(BlockStoreTest, ThreadsShareOneStore) {
  const auto store = OpenStore(4 * FileBytes());
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        const SampleBlock sample = Nth((i + t) % 8);
        const auto block = store->Put(sample.Contents());
        if (!block.ok() || (*block)->key() != sample.Key()) ++failures;
        const auto found = store->Find(sample.Key());
        if (!found.ok() && found.status().code() != StatusCode::kNotFound) {
          ++failures;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_OK(store->index_status());
}

TEST_F(BlockStoreTest, ProcessesCompileTheSameTool) {
  std::vector<pid_t> children;
  for (int child = 0; child < 3; ++child) {
    children.push_back(InChild([&] {
      const auto store = BlockStore::Open({.dir = dir_.path()});
      if (!store.ok()) return false;
      for (int i = 0; i < 20; ++i) {
        const SampleBlock sample = Nth(i);
        if (!(*store)->Put(sample.Contents()).ok()) return false;
        if (!(*store)->Find(sample.Key()).ok()) return false;
      }
      return (*store)->index_status().ok();
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(Succeeded(child));
  const auto store = OpenStore();
  EXPECT_THAT(Tools(*store), SizeIs(20));
  EXPECT_THAT(FilesEndingIn(".nxb"), SizeIs(20));
  EXPECT_THAT(FilesEndingIn(".corrupt"), IsEmpty());
}

TEST_F(BlockStoreTest, ProcessesOpenADamagedIndexTogether) {
  {
    const auto store = OpenStore();
    for (int i = 0; i < 3; ++i) ASSERT_OK(store->Put(Nth(i).Contents()));
  }
  for (size_t i = 0; i < 100; ++i) {
    Overwrite(dir_.File("index.sqlite"), i, 'Z');
  }
  std::vector<pid_t> children;
  for (int child = 0; child < 3; ++child) {
    children.push_back(InChild([&] {
      const auto store = BlockStore::Open({.dir = dir_.path()});
      return store.ok() && (*store)->index_status().ok() &&
             (*store)->Find(Nth(1).Key()).ok();
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(Succeeded(child));
  EXPECT_THAT(Tools(*OpenStore()), SizeIs(3));
}

TEST_F(BlockStoreTest, ReadsOnWhileAnotherProcessEvicts) {
  const auto store = OpenStore();
  ASSERT_OK_AND_ASSIGN(const auto held, store->Put(Nth(0).Contents()));
  EXPECT_TRUE(Succeeded(InChild([&] {
    const auto other =
        BlockStore::Open({.dir = dir_.path(), .max_bytes = FileBytes()});
    return other.ok() && (*other)->Put(Nth(1).Contents()).ok();
  })));
  EXPECT_EQ(held->tokens()[0], 1000);
  EXPECT_EQ(*held->VRow(1, 2), Nth(0).v()[1][24]);
  EXPECT_EQ(store->Find(Nth(0).Key()).status().code(), StatusCode::kNotFound);
  EXPECT_OK(store->Find(Nth(1).Key()));
  EXPECT_THAT(Tools(*store), ElementsAre("tool1"));
  EXPECT_EQ(store->TotalBytes(), FileBytes());
}

}  // namespace
}  // namespace nexus::kv
