#include "nexus/kv/block_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/base/unique_fd.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/block_rewrite.h"
#include "nexus/kv/testing/sample_block.h"
#include "nexus/simd/float16.h"

namespace nexus::kv {
namespace {

using ::nexus::kv::testing::Reseal;
using ::nexus::kv::testing::SampleBlock;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file changed in place: making a new one for each of thousands of cases
// would spend the time on the disk.
class EditedFile {
 public:
  EditedFile(std::string path, const std::string& bytes)
      : path_(std::move(path)),
        size_(bytes.size()),
        fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600)) {
    Write(0, bytes);
  }
  void Write(size_t offset, const std::string& bytes) {
    NEXUS_CHECK(::pwrite(fd_.get(), bytes.data(), bytes.size(),
                         static_cast<off_t>(offset)) ==
                static_cast<ssize_t>(bytes.size()));
  }
  void Truncate(size_t size) {
    NEXUS_CHECK(::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0);
  }
  size_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  const size_t size_;
  UniqueFd fd_;
};

class BlockReaderTest : public ::testing::Test {
 protected:
  // The bytes of the sample's file.
  std::string SampleBytes() {
    const std::string path = dir_.File("sample.nxb");
    EXPECT_OK(WriteBlockFile(FileSystem::Default(), path, sample_.Contents()));
    Result<std::string> bytes = FileSystem::Default().ReadFile(path);
    EXPECT_OK(bytes);
    return bytes.ok() ? *std::move(bytes) : std::string();
  }

  Result<std::shared_ptr<const KvBlock>> OpenBytes(
      const std::string& bytes, const BlockOpenOptions& options = {}) {
    const std::string path = dir_.File("case.nxb");
    NEXUS_ASSIGN_OR_RETURN(auto file,
                           FileSystem::Default().NewWritableFile(path));
    NEXUS_RETURN_IF_ERROR(file->Append(bytes.data(), bytes.size()));
    NEXUS_RETURN_IF_ERROR(file->Close());
    return KvBlock::Open(path, options);
  }

  // The sample with one number of its header changed and sealed again.
  template <typename T>
  Result<std::shared_ptr<const KvBlock>> OpenWithField(size_t offset, T value) {
    std::string bytes = SampleBytes();
    StoreLittle(value, reinterpret_cast<uint8_t*>(bytes.data()) + offset);
    Reseal(&bytes);
    return OpenBytes(bytes);
  }

  // Offset of section `i`'s entry in the table.
  static size_t Entry(size_t i) {
    return kHeaderFixedBytes + kSectionEntryBytes * i;
  }

  ScopedTempDir dir_;
  SampleBlock sample_;
};

TEST_F(BlockReaderTest, ReturnsWhatWasWritten) {
  ASSERT_OK_AND_ASSIGN(const auto block, OpenBytes(SampleBytes()));
  const BlockContents contents = sample_.Contents();
  EXPECT_EQ(block->metadata(), contents.metadata);
  EXPECT_EQ(block->key(), sample_.Key());
  EXPECT_THAT(block->tokens(), ElementsAre(100, 101, 102));
  EXPECT_THAT(block->sensitivity(), ElementsAre(0.0F, 0.5F, 1.0F));
  ASSERT_EQ(block->layers().size(), 2U);
  for (size_t layer = 0; layer < 2; ++layer) {
    EXPECT_EQ(block->layers()[layer], contents.layers[layer]);
    EXPECT_EQ(block->KStrideBytes(layer), 8U);
    EXPECT_EQ(block->VStrideBytes(layer), 12U);
    EXPECT_THAT(block->VM2(layer), ElementsAre(0.0F, 0.5F, 1.0F));
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(block->KRow(layer, 0)) % kBlockAlignBytes,
        0U);
    for (int token = 0; token < 3; ++token) {
      const auto row = static_cast<size_t>(token);
      EXPECT_EQ(std::memcmp(block->KRow(layer, token),
                            sample_.k()[layer].data() + 8 * row, 8),
                0);
      EXPECT_EQ(std::memcmp(block->VRow(layer, token),
                            sample_.v()[layer].data() + 12 * row, 12),
                0);
    }
  }
}

TEST_F(BlockReaderTest, ReadsBlockWithoutProfile) {
  sample_.sensitivity().clear();
  sample_.v_m2().clear();
  ASSERT_OK_AND_ASSIGN(const auto block, OpenBytes(SampleBytes()));
  EXPECT_TRUE(block->sensitivity().empty());
  EXPECT_TRUE(block->VM2(1).empty());
}

TEST_F(BlockReaderTest, StaysReadableAfterUnlink) {
  const std::string path = dir_.File("gone.nxb");
  ASSERT_OK(WriteBlockFile(FileSystem::Default(), path, sample_.Contents()));
  ASSERT_OK_AND_ASSIGN(const auto block, KvBlock::Open(path));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(*block->VRow(1, 2), sample_.v()[1][24]);
}

TEST_F(BlockReaderTest, RejectsTruncationAtEveryByte) {
  EditedFile file(dir_.File("case.nxb"), SampleBytes());
  for (size_t length = file.size(); length-- > 0;) {
    file.Truncate(length);
    const auto block = KvBlock::Open(file.path());
    ASSERT_FALSE(block.ok()) << "length " << length;
    ASSERT_EQ(block.status().code(), StatusCode::kCorruption)
        << length << ": " << block.status();
  }
}

TEST_F(BlockReaderTest, RejectsEveryFlippedBit) {
  const std::string bytes = SampleBytes();
  EditedFile file(dir_.File("case.nxb"), bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      file.Write(i, std::string(1, static_cast<char>(bytes[i] ^ (1 << bit))));
      const auto block = KvBlock::Open(file.path());
      ASSERT_FALSE(block.ok()) << "byte " << i << " bit " << bit;
      ASSERT_EQ(block.status().code(), StatusCode::kCorruption)
          << i << ": " << block.status();
      ASSERT_THAT(block.status().message(), HasSubstr("case.nxb"));
    }
    file.Write(i, bytes.substr(i, 1));
  }
  EXPECT_OK(KvBlock::Open(file.path()));
}

// Bits of the header flipped behind a right checksum: the structure must hold
// by itself, and what still opens must be readable to its last byte.
TEST_F(BlockReaderTest, SurvivesEveryResealedHeaderBit) {
  const std::string bytes = SampleBytes();
  EditedFile file(dir_.File("case.nxb"), bytes);
  const size_t header_bytes = LoadLittle<uint32_t>(
      reinterpret_cast<const uint8_t*>(bytes.data()) + kHeaderBytesOffset);
  // What may change without a contradiction. The profile's type: as an unknown
  // one it is skipped.
  const size_t free_fields[] = {
      kHeaderVersionOffset,      kHeaderMinReaderOffset,  kHeaderKindOffset,
      kHeaderContextCountOffset, kHeaderGenerationOffset, Entry(3)};
  for (size_t i = kBlockMagic.size(); i < header_bytes; ++i) {
    const bool is_length = i / 4 == kHeaderBytesOffset / 4;
    const bool is_checksum = i / 8 == kHeaderChecksumOffset / 8;
    if (is_length || is_checksum) continue;
    const bool is_free =
        std::any_of(std::begin(free_fields), std::end(free_fields),
                    [&](size_t field) { return i / 4 == field / 4; });
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      Reseal(&changed);
      file.Write(0, changed.substr(0, header_bytes));
      const auto block = KvBlock::Open(file.path());
      if (!block.ok()) continue;
      EXPECT_TRUE(is_free) << "byte " << i << " bit " << bit;
      volatile uint8_t sum = 0;
      for (size_t layer = 0; layer < (*block)->layers().size(); ++layer) {
        const int last = (*block)->token_count() - 1;
        sum = static_cast<uint8_t>(
            sum +
            (*block)->KRow(layer, last)[(*block)->KStrideBytes(layer) - 1] +
            (*block)->VRow(layer, last)[(*block)->VStrideBytes(layer) - 1]);
      }
    }
  }
}

TEST_F(BlockReaderTest, RejectsBytesAppended) {
  EXPECT_EQ(OpenBytes(SampleBytes() + "x").status().code(),
            StatusCode::kCorruption);
}

TEST_F(BlockReaderTest, RejectsForeignAndEmptyFiles) {
  EXPECT_EQ(OpenBytes("").status().code(), StatusCode::kCorruption);
  const auto foreign = OpenBytes(std::string(4096, 'G'));
  EXPECT_EQ(foreign.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(foreign.status().message(), HasSubstr("not a Nexus block"));
  EXPECT_EQ(KvBlock::Open(dir_.File("absent.nxb")).status().code(),
            StatusCode::kNotFound);
  EXPECT_FALSE(KvBlock::Open(dir_.path()).ok());
}

TEST_F(BlockReaderTest, RefusesFutureVersionAsIncompatible) {
  std::string bytes = SampleBytes();
  auto* header = reinterpret_cast<uint8_t*>(bytes.data());
  StoreLittle(kBlockFormatVersion + 2, header + kHeaderVersionOffset);
  StoreLittle(kBlockFormatVersion + 1, header + kHeaderMinReaderOffset);
  Reseal(&bytes);
  const auto block = OpenBytes(bytes);
  EXPECT_EQ(block.status().code(), StatusCode::kIncompatible);
  EXPECT_THAT(block.status().message(), HasSubstr("made by a newer Nexus"));
}

TEST_F(BlockReaderTest, ReadsNewerVersionThatKeepsItsMinimum) {
  ASSERT_OK_AND_ASSIGN(
      const auto block,
      OpenWithField<uint32_t>(kHeaderVersionOffset, kBlockFormatVersion + 1));
  EXPECT_EQ(block->format_version(), kBlockFormatVersion + 1);
}

TEST_F(BlockReaderTest, RefusesVersionZeroAsIncompatible) {
  EXPECT_EQ(OpenWithField<uint32_t>(kHeaderVersionOffset, 0).status().code(),
            StatusCode::kIncompatible);
}

TEST_F(BlockReaderTest, NamesEachFingerprintFieldThatDiffers) {
  const std::string bytes = SampleBytes();
  for (const FingerprintField& field : kFingerprintFields) {
    Fingerprint expected = sample_.metadata().fingerprint;
    expected.*field.member = "other";
    const auto block = OpenBytes(bytes, {.expected = &expected});
    EXPECT_EQ(block.status().code(), StatusCode::kIncompatible);
    EXPECT_THAT(block.status().message(),
                HasSubstr(std::string(field.name) + ": has '" +
                          sample_.metadata().fingerprint.*field.member +
                          "', model has 'other'"));
  }
  EXPECT_OK(OpenBytes(bytes, {.expected = &sample_.metadata().fingerprint}));
}

TEST_F(BlockReaderTest, SkipsSectionsOfUnknownType) {
  // The profile's section becomes one that this version doesn't know.
  ASSERT_OK_AND_ASSIGN(const auto block,
                       OpenWithField<uint32_t>(Entry(3), 4711));
  EXPECT_TRUE(block->sensitivity().empty());
  EXPECT_EQ(block->token_count(), 3);
}

TEST_F(BlockReaderTest, RejectsOffsetPastEnd) {
  EXPECT_EQ(
      OpenWithField<uint64_t>(Entry(4) + 8, uint64_t{1} << 40).status().code(),
      StatusCode::kCorruption);
}

TEST_F(BlockReaderTest, RejectsSizesThatWrap) {
  for (const uint64_t size :
       {std::numeric_limits<uint64_t>::max(),
        std::numeric_limits<uint64_t>::max() - 63, uint64_t{1} << 63}) {
    EXPECT_EQ(OpenWithField<uint64_t>(Entry(4) + 16, size).status().code(),
              StatusCode::kCorruption);
  }
}

TEST_F(BlockReaderTest, RejectsSecondSectionOfAType) {
  // Layer 1's keys say that they are layer 0's.
  const auto block = OpenWithField<uint32_t>(Entry(7) + 4, 0);
  EXPECT_EQ(block.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(block.status().message(), HasSubstr("second section"));
}

TEST_F(BlockReaderTest, RejectsCountsThatDisagreeWithSections) {
  for (const uint32_t count : {0U, 2U, 4U, 1U << 20, 0xFFFFFFFFU}) {
    EXPECT_EQ(
        OpenWithField<uint32_t>(kHeaderTokenCountOffset, count).status().code(),
        StatusCode::kCorruption);
  }
  for (const uint32_t count : {0U, 1U, 3U, 1024U, 0xFFFFFFFFU}) {
    const auto block = OpenWithField<uint32_t>(kHeaderLayerCountOffset, count);
    EXPECT_EQ(block.status().code(), StatusCode::kCorruption) << count;
  }
}

TEST_F(BlockReaderTest, ListingMayLeaveRowsUnverified) {
  std::string bytes = SampleBytes();
  bytes[bytes.size() - kBlockAlignBytes] ^= 1;  // M2 of the last layer
  EXPECT_FALSE(OpenBytes(bytes).ok());
  ASSERT_OK_AND_ASSIGN(const auto block,
                       OpenBytes(bytes, {.verify_sections = false}));
  EXPECT_EQ(block->metadata().tool_name, "weather/get_forecast");
}

// Right checksums, wrong numbers: they would order tokens, and a sum never
// loses an infinity.
TEST_F(BlockReaderTest, RejectsDeviationsThatAreNoNumbers) {
  for (const float value : {-1.0F, std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity()}) {
    SampleBlock sample;
    sample.sensitivity()[1] = value;
    ASSERT_OK(WriteBlockFile(FileSystem::Default(), dir_.File("a.nxb"),
                             sample.Contents()));
    EXPECT_EQ(KvBlock::Open(dir_.File("a.nxb")).status().code(),
              StatusCode::kCorruption);
    sample.sensitivity()[1] = 0;
    sample.v_m2()[1][2] = value;
    ASSERT_OK(WriteBlockFile(FileSystem::Default(), dir_.File("a.nxb"),
                             sample.Contents()));
    EXPECT_EQ(KvBlock::Open(dir_.File("a.nxb")).status().code(),
              StatusCode::kCorruption);
  }
}

TEST_F(BlockReaderTest, RejectsDeviationsOfSomeLayersOnly) {
  const auto block = OpenWithField<uint32_t>(Entry(9), 77);
  EXPECT_EQ(block.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(block.status().message(), HasSubstr("type 18 for layer 1"));
}

// A block of 70 tokens (two groups) whose rows are numbers.
class EncodedBlockTest : public BlockReaderTest {
 protected:
  static constexpr int kTokens = 70;

  EncodedBlockTest()
      : encoded_({.token_count = kTokens, .k_elements = 6, .v_elements = 4}) {
    for (size_t layer = 0; layer < 2; ++layer) {
      k_.push_back(Halves(6, 20.0F));
      v_.push_back(Halves(4, 0.0F));
    }
  }

  static std::vector<uint8_t> Halves(int elements, float offset) {
    std::vector<uint8_t> bytes;
    for (int i = 0; i < kTokens * elements; ++i) {
      const float value = offset * static_cast<float>(i % elements) +
                          std::sin(0.7F * static_cast<float>(i));
      const uint16_t half = simd::F32ToF16Bits(value);
      bytes.push_back(static_cast<uint8_t>(half & 0xFF));
      bytes.push_back(static_cast<uint8_t>(half >> 8));
    }
    return bytes;
  }

  BlockContents Contents(const BlockStorage& storage) const {
    BlockContents contents = encoded_.Contents();
    contents.k = k_;
    contents.v = v_;
    contents.storage = storage;
    return contents;
  }

  std::string BytesOf(const BlockStorage& storage) {
    const std::string path = dir_.File("encoded.nxb");
    EXPECT_OK(WriteBlockFile(FileSystem::Default(), path, Contents(storage)));
    Result<std::string> bytes = FileSystem::Default().ReadFile(path);
    EXPECT_OK(bytes);
    return bytes.ok() ? *std::move(bytes) : std::string();
  }

  // Changes bytes of section `i` and seals its checksum and the header.
  template <typename T>
  static std::string WithSectionField(std::string bytes, size_t i,
                                      size_t offset, T value) {
    auto* data = reinterpret_cast<uint8_t*>(bytes.data());
    const auto begin = LoadLittle<uint64_t>(data + Entry(i) + 8);
    const auto size = LoadLittle<uint64_t>(data + Entry(i) + 16);
    StoreLittle(value, data + begin + offset);
    StoreLittle(Xxh3(data + begin, size), data + Entry(i) + 24);
    Reseal(&bytes);
    return bytes;
  }

  // Sections: metadata, layers, tokens, storage, sensitivity, keys, values...
  static constexpr size_t kStorageSection = 3;
  static constexpr size_t kKeysSection = 5;
  static constexpr BlockStorage kQ8 = {RowStorage::kQ8, RowStorage::kQ8};
  static constexpr BlockStorage kQ8K4 = {RowStorage::kQ4, RowStorage::kQ8};

  SampleBlock encoded_;
  std::vector<std::vector<uint8_t>> k_;
  std::vector<std::vector<uint8_t>> v_;
};

TEST_F(EncodedBlockTest, ReadsRowsCloseToWhatWasWritten) {
  for (const BlockStorage& storage : {BlockStorage{}, kQ8, kQ8K4}) {
    const std::string bytes = BytesOf(storage);
    ASSERT_OK_AND_ASSIGN(const uint64_t size,
                         BlockFileBytes(Contents(storage)));
    EXPECT_EQ(bytes.size(), size);
    ASSERT_OK_AND_ASSIGN(const auto block, OpenBytes(bytes));
    EXPECT_EQ(block->storage(1), storage);
    EXPECT_EQ(block->metadata(), encoded_.metadata());
    EXPECT_EQ(block->VM2(1).size(), static_cast<size_t>(kTokens));
    // The movement of a channel is 2 wide: half a step, and float16's own.
    const bool is_k4 = storage.k == RowStorage::kQ4;
    for (size_t layer = 0; layer < 2; ++layer) {
      std::vector<float> k(kTokens * 6);
      std::vector<float> v(kTokens * 4);
      block->ReadK(layer, 0, kTokens, k.data());
      block->ReadV(layer, 0, kTokens, v.data());
      const auto* k_halves = reinterpret_cast<const uint16_t*>(k_[0].data());
      const auto* v_halves = reinterpret_cast<const uint16_t*>(v_[0].data());
      for (size_t i = 0; i < k.size(); ++i) {
        ASSERT_NEAR(k[i], simd::F16BitsToF32(k_halves[i]),
                    is_k4 ? 0.11 : 0.045);
      }
      for (size_t i = 0; i < v.size(); ++i) {
        ASSERT_NEAR(v[i], simd::F16BitsToF32(v_halves[i]), 0.006);
      }
      float last[6];
      block->ReadK(layer, kTokens - 1, 1, last);
      EXPECT_TRUE(std::equal(last, last + 6, k.end() - 6));
    }
  }
}

TEST_F(EncodedBlockTest, OnlyEncodedFilesAskForAReaderOfVersion3) {
  const auto field = [](const std::string& bytes, size_t offset) {
    return LoadLittle<uint32_t>(reinterpret_cast<const uint8_t*>(bytes.data()) +
                                offset);
  };
  const std::string plain = BytesOf({});
  EXPECT_EQ(field(plain, kHeaderVersionOffset), 2U);
  EXPECT_EQ(field(plain, kHeaderMinReaderOffset), 1U);
  const std::string encoded = BytesOf(kQ8);
  EXPECT_EQ(field(encoded, kHeaderVersionOffset), 3U);
  EXPECT_EQ(field(encoded, kHeaderMinReaderOffset), 3U);
}

TEST_F(EncodedBlockTest, RejectsTruncationAtEveryByte) {
  EditedFile file(dir_.File("case.nxb"), BytesOf(kQ8K4));
  for (size_t length = file.size(); length-- > 0;) {
    file.Truncate(length);
    ASSERT_EQ(KvBlock::Open(file.path()).status().code(),
              StatusCode::kCorruption)
        << length;
  }
}

// Encoded rows behind a header that lets older readers in.
TEST_F(EncodedBlockTest, RejectsAFileThatAsksForTooOldAReader) {
  std::string bytes = BytesOf(kQ8);
  auto* header = reinterpret_cast<uint8_t*>(bytes.data());
  for (const uint32_t version : {1U, 2U}) {
    StoreLittle(version, header + kHeaderMinReaderOffset);
    Reseal(&bytes);
    const auto block = OpenBytes(bytes);
    EXPECT_EQ(block.status().code(), StatusCode::kCorruption);
    EXPECT_THAT(block.status().message(), HasSubstr("rows in fewer bits"));
  }
}

TEST_F(EncodedBlockTest, RejectsStorageThatItDoesNotKnow) {
  const std::string bytes = BytesOf(kQ8);
  // K: 3 is unknown; V: 4 bits are for keys; groups of 32, 0 and 2^31 tokens.
  for (const std::string& changed :
       {WithSectionField<uint16_t>(bytes, kStorageSection, 0, 3),
        WithSectionField<uint16_t>(bytes, kStorageSection, 8, 0xFFFF),
        WithSectionField<uint16_t>(bytes, kStorageSection, 2, 2),
        WithSectionField<uint32_t>(bytes, kStorageSection, 4, 32),
        WithSectionField<uint32_t>(bytes, kStorageSection, 12, 0),
        WithSectionField<uint32_t>(bytes, kStorageSection, 12, 1U << 31)}) {
    const auto block = OpenBytes(changed);
    EXPECT_EQ(block.status().code(), StatusCode::kCorruption) << block.status();
  }
}

// The sections' sizes are those of the storage that the file names.
TEST_F(EncodedBlockTest, RejectsSectionsOfAnotherStorage) {
  const std::string bytes = BytesOf(kQ8);
  constexpr uint16_t kOthers[] = {0, 2};
  for (const uint16_t storage : kOthers) {
    const auto block = OpenBytes(
        WithSectionField<uint16_t>(bytes, kStorageSection, 0, storage));
    EXPECT_EQ(block.status().code(), StatusCode::kCorruption);
    EXPECT_THAT(block.status().message(), HasSubstr("section type 4"));
  }
}

TEST_F(EncodedBlockTest, RejectsScalesThatAreNoNumbers) {
  const std::string bytes = BytesOf(kQ8);
  // NaN, infinities, -1.
  constexpr uint16_t kBadScales[] = {0x7E00, 0x7C00, 0xFC00, 0xBC00};
  for (const uint16_t bad : kBadScales) {
    const std::string changed =
        WithSectionField<uint16_t>(bytes, kKeysSection, 6, bad);
    const auto block = OpenBytes(changed);
    EXPECT_EQ(block.status().code(), StatusCode::kCorruption) << bad;
    EXPECT_THAT(block.status().message(), HasSubstr("scale"));
    EXPECT_OK(OpenBytes(changed, {.verify_sections = false}));
  }
}

TEST_F(EncodedBlockTest, AVariantStaysExact) {
  BlockContents contents = Contents(kQ8);
  contents.metadata.kind = BlockKind::kVariant;
  const auto refused =
      WriteBlockFile(FileSystem::Default(), dir_.File("v.nxb"), contents);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("exact"));
  std::string bytes = BytesOf(kQ8);
  StoreLittle(static_cast<uint32_t>(BlockKind::kVariant),
              reinterpret_cast<uint8_t*>(bytes.data()) + kHeaderKindOffset);
  Reseal(&bytes);
  EXPECT_EQ(OpenBytes(bytes).status().code(), StatusCode::kCorruption);
}

TEST_F(EncodedBlockTest, TheWriterRefusesWhatNoScaleReaches) {
  const uint16_t nan = 0x7E00;
  std::memcpy(k_[1].data() + 2 * (6 * 3 + 5), &nan, sizeof nan);
  EXPECT_OK(
      WriteBlockFile(FileSystem::Default(), dir_.File("a.nxb"), Contents({})));
  const auto refused =
      WriteBlockFile(FileSystem::Default(), dir_.File("b.nxb"), Contents(kQ8));
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              HasSubstr("layer 1: token 3, element 5"));
  BlockContents v4 = Contents({RowStorage::kQ8, RowStorage::kQ4});
  EXPECT_EQ(WriteBlockFile(FileSystem::Default(), dir_.File("b.nxb"), v4)
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST_F(EncodedBlockTest, RewritesIntoAnotherStorage) {
  ASSERT_OK_AND_ASSIGN(const auto plain, OpenBytes(BytesOf({})));
  const std::string path = dir_.File("rewritten.nxb");
  ASSERT_OK(RewriteBlock(FileSystem::Default(), *plain, kQ8K4, path));
  ASSERT_OK_AND_ASSIGN(const std::string made,
                       FileSystem::Default().ReadFile(path));
  EXPECT_EQ(made, BytesOf(kQ8K4));
  ASSERT_OK(RewriteBlock(FileSystem::Default(), *plain, {}, path));
  ASSERT_OK_AND_ASSIGN(const std::string same,
                       FileSystem::Default().ReadFile(path));
  EXPECT_EQ(same, BytesOf({}));
}

TEST_F(BlockReaderTest, RejectsMetadataThatIsNotItsJson) {
  const std::string bytes = SampleBytes();
  const auto* header = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto offset = LoadLittle<uint64_t>(header + Entry(0) + 8);
  const auto size = LoadLittle<uint64_t>(header + Entry(0) + 16);
  for (const char* text :
       {"", "[]", "null", "{\"tool_name\":7}", "{\"tool_name\":\"x\"}",
        "[[[[[[[[[[[[[[[[", "\xff\xfe{}"}) {
    std::string changed = bytes;
    std::string json = text;
    json.resize(size, ' ');
    changed.replace(offset, size, json);
    auto* out = reinterpret_cast<uint8_t*>(changed.data());
    StoreLittle(Xxh3(json.data(), json.size()), out + Entry(0) + 24);
    Reseal(&changed);
    EXPECT_EQ(OpenBytes(changed).status().code(), StatusCode::kCorruption)
        << text;
  }
}

}  // namespace
}  // namespace nexus::kv
