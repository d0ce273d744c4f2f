// Slb, the semantic look-aside buffer: tool embeddings as INT8 rows in one
// contiguous, 64-byte aligned buffer, scanned whole for every query.
//
// Row r stands for scale[r] * int8[r]; a cosine is the integer dot product
// times both scales. At 384 dimensions a row is six cache lines, and 250 tools
// are 94 KB: the scan runs out of L2 in microseconds, so no index structure can
// win at this size.
//
// Each row also has its sign bits, an eighth of its bytes: comparing those
// first and multiplying only the rows that differ least finds the same best
// rows for a fraction of the work. They are made
// from the rows, so the file doesn't hold them.
//
// An Slb never changes. Adding, changing or removing tools makes a new one, and
// the Router swaps it in together with the rest of its index: a query sees all
// of the old registry or all of the new one.
//
// The file (extension .nxslb, little-endian; docs/routing.md is normative)
// keeps the quantised rows under the hash of the text each was made from, so
// that a second start embeds nothing.
#ifndef NEXUS_ROUTE_SLB_H_
#define NEXUS_ROUTE_SLB_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/base/result.h"

namespace nexus::route {

struct SlbHit {
  int row = 0;
  float score = 0;  // cosine, up to INT8 rounding (about 0.003)

  friend bool operator==(const SlbHit&, const SlbHit&) = default;
};

enum class SlbScan {
  kAuto,      // two stages from kTwoStageRows rows on
  kOneStage,  // INT8 on every row
  kTwoStage,  // sign bits first, then INT8 on the rows that differ least
};

struct SlbSearchOptions {
  int top_k = 10;
  SlbScan scan = SlbScan::kAuto;
  // Of the first stage: this many rows, and all that differ as little as the
  // last of them. At least top_k; 0: as many as DefaultSurvivors says.
  int survivors = 0;
};

// Move-only. Thread-safe once built: everything is const.
class Slb {
 public:
  explicit Slb(int dimension);
  Slb(Slb&&) noexcept = default;
  Slb& operator=(Slb&&) noexcept = default;

  void Reserve(int row_count);
  // Quantises and appends a row. False, and an all-zero row that matches
  // nothing, when a value isn't finite or `vector` isn't `dimension` long.
  bool Append(const Sha256Digest& key, std::span<const float> vector);
  // Appends a row of another Slb of the same dimension as it is.
  void AppendRowOf(const Slb& other, int row);

  int dimension() const { return dimension_; }
  int row_count() const { return static_cast<int>(scales_.size()); }
  const Sha256Digest& key(int row) const {
    return keys_[static_cast<size_t>(row)];
  }
  // False for the row of an Append that returned false.
  bool usable(int row) const { return scales_[static_cast<size_t>(row)] != 0; }
  std::span<const int8_t> row(int row) const;
  size_t MemoryBytes() const;

  // Cosine of the query with every row. kInternal when the query isn't
  // `dimension` finite numbers (an encoder's fault).
  Result<std::vector<float>> ScoreAll(std::span<const float> query) const;
  // The best `top_k` rows, best first, equal scores by row. Two stages may miss
  // one: recall is in docs/routing.md.
  Result<std::vector<SlbHit>> Search(std::span<const float> query,
                                     const SlbSearchOptions& options) const;
  Result<std::vector<SlbHit>> Search(std::span<const float> query,
                                     int top_k) const {
    return Search(query, SlbSearchOptions{.top_k = top_k});
  }
  int DefaultSurvivors(int top_k) const;
  // Where two stages begin to pay, by `nexus bench scan`.
  static constexpr int kTwoStageRows = 2000;

  // `fingerprint` names the encoder and the recipe of its input text.
  Status Save(FileSystem& fs, const std::string& path,
              std::string_view fingerprint) const;
  // kNotFound, kCorruption (truncated, a flipped bit), kIncompatible (another
  // encoder, another version, not an SLB file). Reads nothing outside the file.
  static Result<Slb> Load(FileSystem& fs, const std::string& path,
                          std::string_view fingerprint);

 private:
  static constexpr size_t kAlignBytes = 64;

  struct AlignedDelete {
    void operator()(int8_t* rows) const;
  };

  // INT8 form of a query, padded to the stride.
  struct QuantisedQuery {
    std::vector<int8_t> values;
    float scale = 0;
  };
  Result<QuantisedQuery> Quantise(std::span<const float> query) const;
  std::vector<int> Survivors(const QuantisedQuery& query, size_t wanted) const;
  // To be called once the last row's numbers are in place.
  void PackLastRow();

  // A zeroed row to fill in.
  int8_t* AppendRow(const Sha256Digest& key, float scale);

  int dimension_;
  size_t stride_;  // dimension rounded up to kAlignBytes
  size_t capacity_rows_ = 0;
  std::unique_ptr<int8_t[], AlignedDelete> rows_;  // [capacity_rows, stride]
  std::vector<uint64_t> signs_;                    // [row, stride / 64]
  std::vector<float> scales_;                      // [row]
  std::vector<Sha256Digest> keys_;                 // [row]
};

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_SLB_H_
