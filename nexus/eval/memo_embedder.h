// MemoEmbedder: an encoder that embeds each text once. A study asks about the
// same tools and queries in hundreds of pools; only the first costs anything.
//
// With a file (Save, Load) the vectors outlive the run: embedding some
// thousands of tools takes minutes. Layout, little-endian: magic "NXEMBED1",
// SHA-256 of the encoder's fingerprint, u32 dimension, u64 count, XXH3-64 of
// what follows; then for each vector the SHA-256 of its role and text, and
// float32 numbers. Not a format to exchange: anything odd is made anew.
#ifndef NEXUS_EVAL_MEMO_EMBEDDER_H_
#define NEXUS_EVAL_MEMO_EMBEDDER_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/llm/embedder.h"

namespace nexus::eval {

// Thread-compatible. The encoder must outlive it.
class MemoEmbedder : public llm::Embedder {
 public:
  explicit MemoEmbedder(llm::Embedder* encoder) : encoder_(*encoder) {}

  int dimension() const override { return encoder_.dimension(); }
  std::string fingerprint() const override { return encoder_.fingerprint(); }
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole role) override;

  // Texts that the encoder had to read.
  int embedded_count() const { return embedded_count_; }

  Status Save(FileSystem& fs, const std::string& path) const;
  // kNotFound; kCorruption, kIncompatible (another encoder's).
  Status Load(FileSystem& fs, const std::string& path);

 private:
  llm::Embedder& encoder_;
  std::map<Sha256Digest, std::vector<float>> known_;
  int embedded_count_ = 0;
};

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_MEMO_EMBEDDER_H_
