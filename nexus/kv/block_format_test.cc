// The golden file and the document's worked example hold the format still: a
// change of one byte in what the writer makes, or in what the reader takes,
// fails here.
#include "nexus/kv/block_format.h"

#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/block_writer.h"

namespace nexus::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::IsEmpty;

std::string SourcePath(const std::string& relative) {
  return std::string(NEXUS_SOURCE_DIR) + "/" + relative;
}

// One file a format version, never made again.
std::string GoldenPath(const std::string& version) {
  return SourcePath("tests/data/blocks/" + version + ".nxb");
}

std::string Bytes(const std::vector<uint16_t>& halves) {
  std::string bytes;
  for (const uint16_t half : halves) {
    bytes += static_cast<char>(half & 0xFF);
    bytes += static_cast<char>(half >> 8);
  }
  return bytes;
}

// The example's contents, float16 as bits.
class Example {
 public:
  Example() {
    const std::string k = Bytes({0x3C00, 0x4000, 0x4200, 0x4400});  // 1 2 3 4
    const std::string v = Bytes({0x3800, 0xB800, 0x3400, 0xB400});
    k_.emplace_back(k.begin(), k.end());
    v_.emplace_back(v.begin(), v.end());
    metadata_.fingerprint = {.model_sha256 = "m",
                             .architecture = "a",
                             .tokenizer = "t",
                             .chat_template_sha256 = "c",
                             .rope = "r",
                             .kv_layout = "k",
                             .engine_version = "e"};
    metadata_.tool_name = "clock";
    metadata_.schema_hash = "s";
    metadata_.recipe = "example";
    metadata_.content = SpliceContent(tokens_, metadata_.recipe);
    metadata_.context_count = 2;
    metadata_.generation = 1;
  }
  BlockContents Contents(const BlockStorage& storage = {}) const {
    return {.metadata = metadata_,
            .tokens = tokens_,
            .layers = layers_,
            .k = k_,
            .v = v_,
            .sensitivity = sensitivity_,
            .v_m2 = v_m2_,
            .storage = storage};
  }

 private:
  BlockMetadata metadata_;
  std::vector<llm::Token> tokens_ = {7, 11};
  std::vector<llm::KvLayerShape> layers_ = {{.k_elements = 2, .v_elements = 2}};
  std::vector<std::vector<uint8_t>> k_;
  std::vector<std::vector<uint8_t>> v_;
  std::vector<float> sensitivity_ = {0.0F, 1.5F};
  // Two samples: Var = M2 = 1.5 ||V||^2.
  std::vector<std::vector<float>> v_m2_ = {{0.0F, 0.1875F}};
};

// The bytes of the dump between the document's marks.
std::string DumpInDocument() {
  std::ifstream file(SourcePath("docs/kv_block_format.md"));
  std::string bytes;
  std::string line;
  std::string last_row;
  bool inside = false;
  bool repeat = false;
  while (std::getline(file, line)) {
    if (line == "<!-- begin v2.nxb -->") inside = true;
    if (line == "<!-- end v2.nxb -->") inside = false;
    if (!inside || line.empty() || line[0] == '`' || line[0] == '<') continue;
    if (line == "*") {
      repeat = true;
      continue;
    }
    const size_t offset = std::stoul(line.substr(0, 8), nullptr, 16);
    while (repeat && bytes.size() < offset) bytes += last_row;
    repeat = false;
    EXPECT_EQ(bytes.size(), offset);
    // 16 bytes in two groups stand in columns 10 to 58.
    std::istringstream digits(line.size() > 10 ? line.substr(10, 49)
                                               : std::string());
    std::string byte;
    std::string row;
    while (digits >> byte) {
      row += static_cast<char>(std::stoi(byte, nullptr, 16));
    }
    bytes += row;
    last_row = row;
  }
  return bytes;
}

TEST(BlockFormatTest, LittleEndianRoundTrips) {
  uint8_t bytes[8];
  StoreLittle(uint64_t{0x0102030405060708}, bytes);
  EXPECT_THAT(bytes, ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
  EXPECT_EQ(LoadLittle<uint64_t>(bytes), 0x0102030405060708U);
  EXPECT_EQ(LoadLittle<uint32_t>(bytes), 0x05060708U);
  EXPECT_EQ(LoadLittle<uint16_t>(bytes), 0x0708U);
}

TEST(BlockFormatTest, AlignUpKeepsMultiples) {
  EXPECT_EQ(AlignUp(0), 0U);
  EXPECT_EQ(AlignUp(1), 64U);
  EXPECT_EQ(AlignUp(64), 64U);
  EXPECT_EQ(AlignUp(65), 128U);
}

TEST(BlockFormatTest, ReadsGoldenFileOfVersion1) {
  ASSERT_OK_AND_ASSIGN(const auto block, KvBlock::Open(GoldenPath("v1")));
  EXPECT_EQ(block->format_version(), 1U);
  BlockMetadata metadata = Example().Contents().metadata;
  metadata.context_count = 1;
  metadata.generation = 0;
  EXPECT_EQ(block->metadata(), metadata);
  EXPECT_THAT(block->tokens(), ElementsAre(7, 11));
  EXPECT_THAT(block->sensitivity(), ElementsAre(0.0F, 1.5F));
  EXPECT_THAT(block->VM2(0), IsEmpty());
  EXPECT_EQ(LoadLittle<uint16_t>(block->KRow(0, 1)), 0x4200);
  EXPECT_EQ(LoadLittle<uint16_t>(block->VRow(0, 1) + 2), 0xB400);
}

TEST(BlockFormatTest, ReadsGoldenFileOfVersion2) {
  ASSERT_OK_AND_ASSIGN(const auto block, KvBlock::Open(GoldenPath("v2")));
  EXPECT_EQ(block->format_version(), 2U);
  EXPECT_EQ(block->metadata(), Example().Contents().metadata);
  EXPECT_THAT(block->sensitivity(), ElementsAre(0.0F, 1.5F));
  EXPECT_THAT(block->VM2(0), ElementsAre(0.0F, 0.1875F));
  EXPECT_EQ(LoadLittle<uint16_t>(block->KRow(0, 1)), 0x4200);
  EXPECT_EQ(LoadLittle<uint16_t>(block->VRow(0, 1) + 2), 0xB400);
}

// What version 2 added must not keep a reader of version 1 out.
TEST(BlockFormatTest, Version2AsksForAReaderOfVersion1) {
  ASSERT_OK_AND_ASSIGN(const std::string golden,
                       FileSystem::Default().ReadFile(GoldenPath("v2")));
  const auto* bytes = reinterpret_cast<const uint8_t*>(golden.data());
  EXPECT_EQ(LoadLittle<uint32_t>(bytes + kHeaderMinReaderOffset), 1U);
}

constexpr BlockStorage kFewerBits = {RowStorage::kQ4, RowStorage::kQ8};

TEST(BlockFormatTest, ReadsGoldenFileOfVersion3) {
  ASSERT_OK_AND_ASSIGN(const auto block, KvBlock::Open(GoldenPath("v3")));
  EXPECT_EQ(block->format_version(), 3U);
  EXPECT_EQ(block->metadata(), Example().Contents().metadata);
  EXPECT_EQ(block->storage(0), kFewerBits);
  EXPECT_THAT(block->VM2(0), ElementsAre(0.0F, 0.1875F));
  std::vector<float> k(4);
  std::vector<float> v(4);
  block->ReadK(0, 0, 2, k.data());
  block->ReadV(0, 0, 2, v.data());
  // The highest code is off by the scale's own rounding.
  EXPECT_THAT(
      k, ElementsAre(1.0F, 2.0F, FloatNear(3, 0.001F), FloatNear(4, 0.001F)));
  EXPECT_THAT(v, ElementsAre(FloatNear(0.5F, 0.0002F), -0.5F, 0.25F,
                             FloatNear(-0.25F, 0.0002F)));
}

// Rows as cached are written as version 2, to the byte; rows in fewer bits as
// version 3.
TEST(BlockFormatTest, WriterStillMakesTheGoldenFiles) {
  const ScopedTempDir dir;
  const struct {
    const char* version;
    BlockStorage storage;
  } cases[] = {{"v2", {}}, {"v3", kFewerBits}};
  for (const auto& each : cases) {
    const std::string path = dir.File("made.nxb");
    ASSERT_OK(WriteBlockFile(FileSystem::Default(), path,
                             Example().Contents(each.storage)));
    ASSERT_OK_AND_ASSIGN(const std::string made,
                         FileSystem::Default().ReadFile(path));
    ASSERT_OK_AND_ASSIGN(
        const std::string golden,
        FileSystem::Default().ReadFile(GoldenPath(each.version)));
    EXPECT_EQ(made, golden) << each.version;
  }
}

TEST(BlockFormatTest, DocumentShowsTheGoldenFile) {
  ASSERT_OK_AND_ASSIGN(const std::string golden,
                       FileSystem::Default().ReadFile(GoldenPath("v2")));
  EXPECT_EQ(DumpInDocument(), golden);
}

}  // namespace
}  // namespace nexus::kv
