// MemoEmbedder: an encoder that embeds each text once. A study asks about the
// same tools and queries in hundreds of pools; only the first costs anything.
// With a file (Save, Load) the vectors outlive the run: embedding some
// thousands of tools takes minutes.
#ifndef NEXUS_EVAL_MEMO_EMBEDDER_H_
#define NEXUS_EVAL_MEMO_EMBEDDER_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/eval/keyed_rows.h"
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

  // As KeyedRows.
  Status Save(FileSystem& fs, const std::string& path) const {
    return known_.Save(fs, path, fingerprint(), width());
  }
  Status Load(FileSystem& fs, const std::string& path) {
    return known_.Load(fs, path, fingerprint(), width());
  }

 private:
  size_t width() const { return static_cast<size_t>(dimension()); }

  llm::Embedder& encoder_;
  KeyedRows known_;
  int embedded_count_ = 0;
};

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_MEMO_EMBEDDER_H_
