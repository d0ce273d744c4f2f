#include "nexus/route/slb.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/route/slb_format.h"

namespace nexus::route {
namespace {

using ::testing::HasSubstr;

Sha256Digest Key(int i) { return Sha256Of("text " + std::to_string(i)); }

std::vector<float> UnitVector(int dimension, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(static_cast<size_t>(dimension));
  float norm = 0;
  for (float& x : v) {
    x = normal(random);
    norm += x * x;
  }
  for (float& x : v) x /= std::sqrt(norm);
  return v;
}

float Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  float sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Slb MakeSlb(int rows, int dimension) {
  Slb slb(dimension);
  for (int r = 0; r < rows; ++r) {
    EXPECT_TRUE(
        slb.Append(Key(r), UnitVector(dimension, static_cast<uint32_t>(r))));
  }
  return slb;
}

TEST(SlbTest, ScoresAreCosinesUpToRounding) {
  // 100 isn't a multiple of any vector width; 384 is MiniLM's.
  for (const int dimension : {1, 100, 384}) {
    const Slb slb = MakeSlb(70, dimension);
    const std::vector<float> query = UnitVector(dimension, 999);
    ASSERT_OK_AND_ASSIGN(const std::vector<float> scores, slb.ScoreAll(query));
    for (int r = 0; r < 70; ++r) {
      EXPECT_NEAR(
          scores[static_cast<size_t>(r)],
          Cosine(UnitVector(dimension, static_cast<uint32_t>(r)), query), 0.01);
    }
  }
}

TEST(SlbTest, RowsAreAlignedAndSurviveGrowth) {
  const Slb slb = MakeSlb(1000, 100);
  for (int r = 0; r < 1000; ++r) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(slb.row(r).data()) % 64, 0U);
    EXPECT_EQ(slb.key(r), Key(r));
  }
  ASSERT_OK_AND_ASSIGN(const auto hits, slb.Search(UnitVector(100, 17), 1));
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].row, 17);
  EXPECT_NEAR(hits[0].score, 1.0F, 0.01F);
}

TEST(SlbTest, SearchOrdersByScoreThenRow) {
  Slb slb(4);
  const std::vector<float> east = {1, 0, 0, 0};
  const std::vector<float> north = {0, 1, 0, 0};
  EXPECT_TRUE(slb.Append(Key(0), north));
  EXPECT_TRUE(slb.Append(Key(1), east));
  EXPECT_TRUE(slb.Append(Key(2), east));
  ASSERT_OK_AND_ASSIGN(const auto hits, slb.Search(east, 10));
  ASSERT_EQ(hits.size(), 3U);
  EXPECT_EQ(hits[0].row, 1);
  EXPECT_EQ(hits[1].row, 2);
  EXPECT_EQ(hits[2].row, 0);
  ASSERT_OK_AND_ASSIGN(const auto none, slb.Search(east, -1));
  EXPECT_TRUE(none.empty());
}

// More rows than a block, a dimension with padding.
TEST(SlbTest, SearchIsTheBestOfScoreAll) {
  const Slb slb = MakeSlb(4100, 40);
  const std::vector<float> query = UnitVector(40, 77777);
  ASSERT_OK_AND_ASSIGN(const auto scores, slb.ScoreAll(query));
  std::vector<SlbHit> expected;
  for (int r = 0; r < slb.row_count(); ++r) {
    expected.push_back({r, scores[static_cast<size_t>(r)]});
  }
  std::stable_sort(
      expected.begin(), expected.end(),
      [](const SlbHit& a, const SlbHit& b) { return a.score > b.score; });
  expected.resize(25);
  ASSERT_OK_AND_ASSIGN(
      const auto hits,
      slb.Search(query, {.top_k = 25, .scan = SlbScan::kOneStage}));
  EXPECT_EQ(hits, expected);
  // Every row survives, so two stages give the same.
  ASSERT_OK_AND_ASSIGN(
      const auto staged,
      slb.Search(query,
                 {.top_k = 25, .scan = SlbScan::kTwoStage, .survivors = 4100}));
  EXPECT_EQ(staged, expected);
}

// Rows in families of ten around a centre, as the tools of one kind are.
TEST(SlbTest, TwoStagesFindTheNearestFamily) {
  constexpr int kDimension = 384;
  Slb slb(kDimension);
  const auto member = [](uint32_t family, uint32_t seed) {
    std::vector<float> v = UnitVector(kDimension, family);
    const std::vector<float> noise = UnitVector(kDimension, 100000 + seed);
    for (size_t i = 0; i < v.size(); ++i) v[i] += 0.8F * noise[i];
    return v;
  };
  for (uint32_t r = 0; r < 2000; ++r) {
    EXPECT_TRUE(slb.Append(Key(static_cast<int>(r)), member(r / 10, r)));
  }
  for (uint32_t family = 0; family < 200; family += 20) {
    const std::vector<float> query = member(family, 5000 + family);
    ASSERT_OK_AND_ASSIGN(const auto exact, slb.Search(query, 10));
    ASSERT_OK_AND_ASSIGN(
        const auto staged,
        slb.Search(query, {.top_k = 10, .scan = SlbScan::kTwoStage}));
    EXPECT_EQ(staged, exact) << "family " << family;
  }
}

TEST(SlbTest, TwoStagesSurviveFewRowsAndBadQueries) {
  const SlbSearchOptions staged = {.top_k = 5, .scan = SlbScan::kTwoStage};
  ASSERT_OK_AND_ASSIGN(auto hits, Slb(8).Search(UnitVector(8, 1), staged));
  EXPECT_TRUE(hits.empty());
  const Slb slb = MakeSlb(3, 8);
  ASSERT_OK_AND_ASSIGN(hits, slb.Search(UnitVector(8, 1), staged));
  EXPECT_EQ(hits.size(), 3U);
  ASSERT_OK_AND_ASSIGN(
      hits,
      slb.Search(UnitVector(8, 1), {.top_k = 0, .scan = SlbScan::kTwoStage}));
  EXPECT_TRUE(hits.empty());
  // No direction at all: every cosine is zero, and the order is the rows'.
  ASSERT_OK_AND_ASSIGN(hits, slb.Search(std::vector<float>(8), staged));
  ASSERT_EQ(hits.size(), 3U);
  EXPECT_EQ(hits[0], (SlbHit{0, 0}));
  std::vector<float> nan(8, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(slb.Search(nan, staged).status().code(), StatusCode::kInternal);
  EXPECT_EQ(slb.Search(std::vector<float>{1}, staged).status().code(),
            StatusCode::kInternal);
}

TEST(SlbTest, AnEmptyOneFindsNothing) {
  ASSERT_OK_AND_ASSIGN(const auto hits, Slb(8).Search(UnitVector(8, 1), 5));
  EXPECT_TRUE(hits.empty());
}

TEST(SlbTest, RefusesVectorsThatArentFinite) {
  Slb slb(3);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(slb.Append(Key(0), std::vector<float>{1, nan, 0}));
  EXPECT_FALSE(slb.Append(Key(1), std::vector<float>{inf, 0, 0}));
  EXPECT_FALSE(slb.Append(Key(2), std::vector<float>{1, 0}));
  EXPECT_TRUE(slb.Append(Key(3), std::vector<float>{1, 0, 0}));
  EXPECT_EQ(slb.row_count(), 4);
  EXPECT_FALSE(slb.usable(0));
  EXPECT_TRUE(slb.usable(3));
  ASSERT_OK_AND_ASSIGN(const auto scores,
                       slb.ScoreAll(std::vector<float>{1, 0, 0}));
  EXPECT_EQ(scores[0], 0);
  EXPECT_NEAR(scores[3], 1, 1e-3);

  EXPECT_EQ(slb.ScoreAll(std::vector<float>{1, nan, 0}).status().code(),
            StatusCode::kInternal);
  EXPECT_EQ(slb.ScoreAll(std::vector<float>{1, 0}).status().code(),
            StatusCode::kInternal);
}

// One file in memory: thousands of damaged variants are read without a disk.
class OneFile : public FileSystem {
 public:
  explicit OneFile(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<std::string> ReadFile(const std::string&) override { return bytes_; }
  Result<std::unique_ptr<WritableFile>> NewWritableFile(
      const std::string&) override {
    return UnimplementedError("read-only");
  }
  Status Rename(const std::string&, const std::string&) override {
    return UnimplementedError("read-only");
  }
  Status SyncDir(const std::string&) override { return Status::Ok(); }
  Status Remove(const std::string&) override {
    return UnimplementedError("read-only");
  }
  Status CreateDirs(const std::string&) override { return Status::Ok(); }
  Result<uint64_t> FileSize(const std::string&) override {
    return bytes_.size();
  }
  bool Exists(const std::string&) override { return true; }
  Result<std::vector<std::string>> ListDir(const std::string&) override {
    return UnimplementedError("one file");
  }

 private:
  std::string bytes_;
};

class SlbFileTest : public ::testing::Test {
 protected:
  static Result<Slb> LoadBytes(std::string bytes) {
    OneFile fs(std::move(bytes));
    return Slb::Load(fs, "bytes.nxslb", "enc");
  }
  std::string SavedBytes(const Slb& slb) {
    EXPECT_OK(slb.Save(fs_, path_, "enc"));
    Result<std::string> bytes = fs_.ReadFile(path_);
    EXPECT_OK(bytes);
    return std::move(bytes).value();
  }

  ScopedTempDir dir_;
  FileSystem& fs_ = FileSystem::Default();
  const std::string path_ = dir_.File("index.nxslb");
};

TEST_F(SlbFileTest, RoundTripIsExact) {
  const Slb slb = MakeSlb(37, 100);
  ASSERT_OK(slb.Save(fs_, path_, "enc"));
  ASSERT_OK_AND_ASSIGN(const Slb loaded, Slb::Load(fs_, path_, "enc"));
  ASSERT_EQ(loaded.row_count(), 37);
  ASSERT_EQ(loaded.dimension(), 100);
  const std::vector<float> query = UnitVector(100, 5000);
  ASSERT_OK_AND_ASSIGN(const auto before, slb.ScoreAll(query));
  ASSERT_OK_AND_ASSIGN(const auto after, loaded.ScoreAll(query));
  EXPECT_EQ(before, after);
  const SlbSearchOptions staged = {
      .top_k = 5, .scan = SlbScan::kTwoStage, .survivors = 9};
  ASSERT_OK_AND_ASSIGN(const auto found, slb.Search(query, staged));
  ASSERT_OK_AND_ASSIGN(const auto found_after, loaded.Search(query, staged));
  EXPECT_EQ(found, found_after);
  for (int r = 0; r < 37; ++r) EXPECT_EQ(loaded.key(r), slb.key(r));
}

TEST_F(SlbFileTest, AnEmptyOneRoundTrips) {
  ASSERT_OK(Slb(16).Save(fs_, path_, "enc"));
  ASSERT_OK_AND_ASSIGN(const Slb loaded, Slb::Load(fs_, path_, "enc"));
  EXPECT_EQ(loaded.row_count(), 0);
}

TEST_F(SlbFileTest, RefusesAnotherEncoder) {
  ASSERT_OK(MakeSlb(3, 8).Save(fs_, path_, "enc"));
  const Status status = Slb::Load(fs_, path_, "other").status();
  EXPECT_EQ(status.code(), StatusCode::kIncompatible);
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST_F(SlbFileTest, ReportsAMissingFile) {
  EXPECT_EQ(Slb::Load(fs_, path_, "enc").status().code(),
            StatusCode::kNotFound);
}

TEST_F(SlbFileTest, RefusesTruncationAtEveryByte) {
  const std::string bytes = SavedBytes(MakeSlb(5, 24));
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(LoadBytes(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(LoadBytes(bytes + "x").ok());
}

TEST_F(SlbFileTest, RefusesEveryFlippedBitOfTheHeaderAndEveryByteOfSections) {
  const std::string bytes = SavedBytes(MakeSlb(5, 24));
  SlbFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  for (size_t bit = 0; bit < 8 * sizeof(SlbFileHeader); ++bit) {
    std::string broken = bytes;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(LoadBytes(broken).ok()) << "bit " << bit;
  }
  const auto flip_section = [&](uint64_t offset, uint64_t byte_count) {
    for (uint64_t i = offset; i < offset + byte_count; ++i) {
      std::string broken = bytes;
      broken[i] = static_cast<char>(broken[i] ^ 0x10);
      const Status status = LoadBytes(broken).status();
      ASSERT_EQ(status.code(), StatusCode::kCorruption) << "byte " << i;
    }
  };
  flip_section(header.keys_offset, 5 * 32);
  flip_section(header.scales_offset, 5 * 4);
  flip_section(header.rows_offset, 5 * 24);
}

// Headers whose own checksum is right, written by somebody who means harm.
TEST_F(SlbFileTest, RefusesHostileHeaders) {
  const std::string bytes = SavedBytes(MakeSlb(5, 24));
  const auto load_with = [&](auto change) {
    SlbFileHeader header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    change(header);
    header.header_xxh3 = Xxh3(&header, offsetof(SlbFileHeader, header_xxh3));
    std::string file = bytes;
    std::memcpy(file.data(), &header, sizeof(header));
    return LoadBytes(file).status().code();
  };
  const auto corrupt = StatusCode::kCorruption;
  EXPECT_EQ(load_with([](auto& h) { h.row_count = 6; }), corrupt);
  EXPECT_EQ(load_with([](auto& h) { h.row_count = ~uint64_t{0}; }), corrupt);
  EXPECT_EQ(load_with([](auto& h) { h.row_count = uint64_t{1} << 59; }),
            corrupt);
  EXPECT_EQ(load_with([](auto& h) { h.dimension = 0; }), corrupt);
  EXPECT_EQ(load_with([](auto& h) { h.dimension = ~uint32_t{0}; }), corrupt);
  EXPECT_EQ(load_with([](auto& h) { h.rows_offset = 0; }), corrupt);
  EXPECT_EQ(load_with([](auto& h) { h.keys_offset = ~uint64_t{0} - 64; }),
            corrupt);
  EXPECT_EQ(load_with([](auto& h) { h.version = 2; }),
            StatusCode::kIncompatible);
}

// The checksum is right: somebody wrote a byte that quantisation never gives,
// and that the scan doesn't allow.
TEST_F(SlbFileTest, RefusesARowByteOfMinus128) {
  std::string bytes = SavedBytes(MakeSlb(5, 24));
  SlbFileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes[header.rows_offset + 30] = static_cast<char>(-128);
  header.rows_xxh3 = Xxh3(bytes.data() + header.rows_offset, 5 * 24);
  header.header_xxh3 = Xxh3(&header, offsetof(SlbFileHeader, header_xxh3));
  std::memcpy(bytes.data(), &header, sizeof(header));
  const Status status = LoadBytes(bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr("row 1"));
}

TEST_F(SlbFileTest, RefusesForeignFiles) {
  EXPECT_EQ(LoadBytes(std::string(4096, 'x')).status().code(),
            StatusCode::kIncompatible);
  EXPECT_EQ(LoadBytes("").status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace nexus::route
