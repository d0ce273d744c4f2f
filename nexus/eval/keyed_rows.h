// KeyedRows: float rows under SHA-256 keys, in memory and, with a file, from
// run to run: what a model computes once for a text needn't be computed again.
//
// Layout, little-endian: magic "NXEMBED1", SHA-256 of the model's fingerprint,
// u32 row width, u64 count, XXH3-64 of what follows; then for each row its key
// and float32 numbers. Not a format to exchange: anything odd is made anew.
#ifndef NEXUS_EVAL_KEYED_ROWS_H_
#define NEXUS_EVAL_KEYED_ROWS_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"

namespace nexus::eval {

// Thread-compatible.
class KeyedRows {
 public:
  // Null: not there.
  const std::vector<float>* Find(const Sha256Digest& key) const;
  void Put(const Sha256Digest& key, std::vector<float> row) {
    rows_[key] = std::move(row);
  }
  size_t size() const { return rows_.size(); }

  // Rows of another width are left out.
  Status Save(FileSystem& fs, const std::string& path,
              std::string_view fingerprint, size_t width) const;
  // Adds what the file has. kNotFound; kCorruption, kIncompatible (another
  // model's).
  Status Load(FileSystem& fs, const std::string& path,
              std::string_view fingerprint, size_t width);

 private:
  std::map<Sha256Digest, std::vector<float>> rows_;
};

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_KEYED_ROWS_H_
