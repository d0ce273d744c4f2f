// MemoReranker: a re-ranker that reads each pair once, as MemoEmbedder does
// with texts. A pair costs as much as embedding a tool, and a study asks about
// the same pairs in pool after pool.
#ifndef NEXUS_EVAL_MEMO_RERANKER_H_
#define NEXUS_EVAL_MEMO_RERANKER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/eval/keyed_rows.h"
#include "nexus/llm/reranker.h"

namespace nexus::eval {

// Thread-compatible. The re-ranker must outlive it.
class MemoReranker : public llm::Reranker {
 public:
  explicit MemoReranker(llm::Reranker* reranker) : reranker_(*reranker) {}

  Result<std::vector<float>> Score(
      std::string_view query, std::span<const std::string> documents) override;
  std::string name() const override { return reranker_.name(); }
  std::string fingerprint() const override { return reranker_.fingerprint(); }

  // Pairs that the re-ranker had to read.
  int scored_count() const { return scored_count_; }

  // As KeyedRows.
  Status Save(FileSystem& fs, const std::string& path) const {
    return known_.Save(fs, path, fingerprint(), 1);
  }
  Status Load(FileSystem& fs, const std::string& path) {
    return known_.Load(fs, path, fingerprint(), 1);
  }

 private:
  llm::Reranker& reranker_;
  KeyedRows known_;
  int scored_count_ = 0;
};

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_MEMO_RERANKER_H_
