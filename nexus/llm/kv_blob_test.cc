#include "nexus/llm/kv_blob.h"

#include <array>
#include <cstring>
#include <numeric>

#include "nexus/base/test_util.h"

namespace nexus::llm {
namespace {

constexpr uint32_t kMagic = 0xaf143cd8;
constexpr SequenceId kScratch = 1;

KvLayout MakeLayout(bool transposed, KvType v_type) {
  KvLayout layout;
  layout.v_transposed = transposed;
  for (const bool window : {false, false, true}) {
    layout.layers.push_back({.k_elements = 6,
                             .v_elements = 4,
                             .k_type = KvType::kF16,
                             .v_type = v_type,
                             .sliding_window = window});
  }
  return layout;
}

constexpr size_t kTwoCaches[] = {2, 1};

// A blob whose K and V rows are counted through: row-major V in `v`.
struct Blob {
  KvLayout layout;
  std::vector<uint8_t> bytes;
  std::vector<std::vector<uint8_t>> k;
  std::vector<std::vector<uint8_t>> v;
};

Blob MakeBlob(bool transposed, KvType v_type, size_t cells) {
  Blob blob{.layout = MakeLayout(transposed, v_type)};
  const KvBlobFormat format = {.magic = kMagic,
                               .sequence = kScratch,
                               .layout = &blob.layout,
                               .layers_per_cache = kTwoCaches};
  const auto slots = LayOutKvBlob(format, 10, cells, &blob.bytes);
  uint8_t next = 1;
  for (size_t i = 0; i < slots.size(); ++i) {
    blob.k.emplace_back(cells * blob.layout.RowBytesK(i));
    blob.v.emplace_back(cells * blob.layout.RowBytesV(i));
    for (uint8_t& byte : blob.k[i]) byte = next++;
    for (uint8_t& byte : blob.v[i]) byte = next++;
    std::memcpy(blob.bytes.data() + slots[i].k, blob.k[i].data(),
                blob.k[i].size());
    PlaceV(blob.layout.layers[i], transposed, blob.v[i].data(),
           blob.layout.RowBytesV(i), cells, blob.bytes.data() + slots[i].v);
  }
  return blob;
}

class KvBlobTest : public ::testing::TestWithParam<std::tuple<bool, KvType>> {
 protected:
  Blob Make(size_t cells) const {
    return MakeBlob(std::get<0>(GetParam()), std::get<1>(GetParam()), cells);
  }
};

INSTANTIATE_TEST_SUITE_P(Layouts, KvBlobTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(KvType::kF16,
                                                              KvType::kF32)));

TEST_P(KvBlobTest, ParsesWhatItLaidOut) {
  const Blob blob = Make(5);
  ASSERT_OK_AND_ASSIGN(const KvBlobView view, ParseKvBlob(blob.bytes));
  EXPECT_EQ(view.magic, kMagic);
  EXPECT_EQ(view.sequence, kScratch);
  ASSERT_EQ(view.caches.size(), 2U);
  size_t layer = 0;
  for (const KvBlobCache& cache : view.caches) {
    EXPECT_EQ(cache.positions, (std::vector<Position>{10, 11, 12, 13, 14}));
    EXPECT_EQ(cache.v_transposed, blob.layout.v_transposed);
    for (size_t i = 0; i < cache.layers.size(); ++i, ++layer) {
      EXPECT_EQ(cache.layers[i].shape, blob.layout.layers[layer]);
      std::vector<uint8_t> k(blob.k[layer].size());
      std::vector<uint8_t> v(blob.v[layer].size());
      GatherRows(cache, i, 10, k.data(), v.data());
      EXPECT_EQ(k, blob.k[layer]);
      EXPECT_EQ(v, blob.v[layer]);
    }
  }
  EXPECT_EQ(layer, 3U);
}

TEST_P(KvBlobTest, GathersCellsByPositionNotByCellOrder) {
  Blob blob = Make(4);
  // Swap the positions of cells: 12 13 10 11, a cache whose middle was
  // refilled.
  for (const size_t cache_offset :
       {size_t{8}, blob.bytes.size() -
                       (8 + 4 * 12 + 8 + 24 + 4 * blob.layout.RowBytesK(2) +
                        4 * blob.layout.RowBytesV(2))}) {
    for (size_t cell = 0; cell < 4; ++cell) {
      const Position position = 10 + static_cast<Position>((cell + 2) % 4);
      std::memcpy(blob.bytes.data() + cache_offset + 8 + cell * 12, &position,
                  sizeof(position));
    }
  }
  ASSERT_OK_AND_ASSIGN(const KvBlobView view, ParseKvBlob(blob.bytes));
  const auto expect_swapped = [](const std::vector<uint8_t>& stored,
                                 const std::vector<uint8_t>& gathered) {
    const size_t half = stored.size() / 2;
    EXPECT_EQ(0, std::memcmp(gathered.data(), stored.data() + half, half));
    EXPECT_EQ(0, std::memcmp(gathered.data() + half, stored.data(), half));
  };
  for (size_t layer = 0; layer < 3; ++layer) {
    const KvBlobCache& cache = view.caches[layer / 2];
    std::vector<uint8_t> k(blob.k[layer].size());
    std::vector<uint8_t> v(blob.v[layer].size());
    GatherRows(cache, layer % 2, 10, k.data(), v.data());
    expect_swapped(blob.k[layer], k);
    expect_swapped(blob.v[layer], v);
  }
}

TEST_P(KvBlobTest, RefusesTruncationAtEveryByte) {
  const Blob blob = Make(3);
  // The end of the first cache is a whole blob of a model with one cache.
  const size_t second_cache = 8 + 3 * 12 + 8 + 24 +
                              3 * blob.layout.RowBytesK(2) +
                              3 * blob.layout.RowBytesV(2);
  for (size_t size = 0; size < blob.bytes.size(); ++size) {
    // A copy of the exact size, so that a sanitizer sees any read past the end.
    const std::vector<uint8_t> cut(
        blob.bytes.begin(),
        blob.bytes.begin() + static_cast<std::ptrdiff_t>(size));
    const Result<KvBlobView> view = ParseKvBlob(cut);
    EXPECT_EQ(view.ok(), size == blob.bytes.size() - second_cache) << size;
  }
}

TEST_P(KvBlobTest, SurvivesEveryFlippedHeaderByte) {
  const Blob blob = Make(3);
  for (size_t i = 0; i < blob.bytes.size(); ++i) {
    for (const uint8_t flip : std::array<uint8_t, 3>{0x01, 0x80, 0xFF}) {
      std::vector<uint8_t> damaged = blob.bytes;
      damaged[i] = static_cast<uint8_t>(damaged[i] ^ flip);
      const Result<KvBlobView> view = ParseKvBlob(damaged);
      if (!view.ok()) {
        EXPECT_FALSE(view.status().message().empty());
        continue;
      }
      // Whatever was accepted lies within the blob: touch all of it.
      unsigned sum = 0;
      for (const KvBlobCache& cache : view->caches) {
        for (const KvBlobLayer& layer : cache.layers) {
          const size_t k = cache.positions.size() * layer.shape.k_elements *
                           KvElementBytes(layer.shape.k_type);
          const size_t v = cache.positions.size() * layer.shape.v_elements *
                           KvElementBytes(layer.shape.v_type);
          ASSERT_LE(layer.k + k, damaged.data() + damaged.size());
          ASSERT_LE(layer.v + v, damaged.data() + damaged.size());
          sum = std::accumulate(layer.k, layer.k + k, sum);
          sum = std::accumulate(layer.v, layer.v + v, sum);
        }
      }
      EXPECT_GT(sum, 0U);
    }
  }
}

void Overwrite(std::vector<uint8_t>* bytes, size_t offset, uint32_t value) {
  std::memcpy(bytes->data() + offset, &value, sizeof(value));
}

TEST(KvBlobRefusalTest, NamesSeveralStreams) {
  Blob blob = MakeBlob(true, KvType::kF16, 2);
  Overwrite(&blob.bytes, 8, 2);
  const auto view = ParseKvBlob(blob.bytes);
  EXPECT_EQ(view.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(view.status().message().find("2 streams"), std::string::npos);
}

TEST(KvBlobRefusalTest, NamesQuantisedKeys) {
  Blob blob = MakeBlob(true, KvType::kF16, 2);
  Overwrite(&blob.bytes, 8 + 8 + 2 * 12 + 8, 8);  // GGML_TYPE_Q8_0
  const auto view = ParseKvBlob(blob.bytes);
  EXPECT_EQ(view.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(view.status().message().find("ggml type 8"), std::string::npos);
}

TEST(KvBlobRefusalTest, NamesACacheWithoutV) {
  Blob blob = MakeBlob(false, KvType::kF16, 2);
  const size_t k_end =
      8 + 8 + 2 * 12 + 8 + 2 * (12 + 2 * blob.layout.RowBytesK(0));
  blob.bytes.resize(k_end);
  const auto view = ParseKvBlob(blob.bytes);
  EXPECT_EQ(view.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(view.status().message().find("latent"), std::string::npos);
}

TEST(KvBlobRefusalTest, RefusesCellsWithExtraFields) {
  // M-RoPE cells carry 12 more bytes between the owner count and the owner.
  Blob blob = MakeBlob(false, KvType::kF16, 1);
  blob.bytes.insert(blob.bytes.begin() + 8 + 8 + 8, 12, 0);
  const auto view = ParseKvBlob(blob.bytes);
  EXPECT_EQ(view.status().code(), StatusCode::kCorruption);
  EXPECT_NE(view.status().message().find("owner"), std::string::npos);
}

TEST(KvBlobRefusalTest, RefusesAThirdCache) {
  Blob blob = MakeBlob(false, KvType::kF16, 1);
  blob.bytes.insert(blob.bytes.end(), 16, 0);
  const auto view = ParseKvBlob(blob.bytes);
  EXPECT_EQ(view.status().code(), StatusCode::kUnimplemented);
}

TEST(PlaceVTest, PlacesStridedRows) {
  const KvLayerShape shape = {.k_elements = 2, .v_elements = 2};
  // Two rows of two half-floats, six bytes apart.
  const uint16_t rows[] = {1, 2, 99, 3, 4, 99};
  uint16_t out[4] = {};
  PlaceV(shape, /*transposed=*/false, rows, 6, 2,
         reinterpret_cast<uint8_t*>(out));
  EXPECT_EQ(std::vector<uint16_t>(out, out + 4),
            (std::vector<uint16_t>{1, 2, 3, 4}));
  PlaceV(shape, /*transposed=*/true, rows, 6, 2,
         reinterpret_cast<uint8_t*>(out));
  EXPECT_EQ(std::vector<uint16_t>(out, out + 4),
            (std::vector<uint16_t>{1, 3, 2, 4}));
}

}  // namespace
}  // namespace nexus::llm
