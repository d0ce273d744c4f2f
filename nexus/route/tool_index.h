// ToolIndex: everything that routing needs of a registry, built once and never
// changed: the tools, their texts, BM25, names, twins, and the SLB.
//
// Embeddings are remembered in an SLB file under the hash of the text that was
// embedded, so only new and changed tools are embedded at the next start, and
// switching between registries costs nothing.
#ifndef NEXUS_ROUTE_TOOL_INDEX_H_
#define NEXUS_ROUTE_TOOL_INDEX_H_

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/result.h"
#include "nexus/llm/embedder.h"
#include "nexus/route/bm25.h"
#include "nexus/route/name_index.h"
#include "nexus/route/slb.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::route {

struct ToolIndexOptions {
  // Embedding cache; empty: none. A file of another encoder or a damaged one is
  // replaced, with a line in warnings().
  std::string cache_path;
  FileSystem* file_system = nullptr;  // null: the default one
  // Rows in the cache file; the oldest go first. 400 bytes a row.
  int cache_row_limit = 65536;
  int batch_texts = 32;
  // After each batch: how many of the texts to embed are done.
  std::function<void(int done, int total)> progress;
  // True: Build ends after the batch with kCancelled; what is embedded is
  // cached.
  const std::atomic<bool>* cancel = nullptr;
};

// Thread-safe once built: everything is const.
class ToolIndex {
 public:
  // `embedder` null: BM25 only. It is used during the call only. An empty
  // registry is fine. Errors are the encoder's own; a text that it can't embed
  // (a vector that isn't finite) costs that tool its dense score, with a line
  // in warnings(), and isn't cached; an encoder that can embed none is an
  // error. A cache that can't be written is a warning too.
  static Result<std::shared_ptr<const ToolIndex>> Build(
      std::vector<schema::ToolSchema> tools, llm::Embedder* embedder,
      const ToolIndexOptions& options = {});

  const std::vector<schema::ToolSchema>& tools() const { return tools_; }
  const schema::ToolSchema& tool(int index) const {
    return tools_[static_cast<size_t>(index)];
  }
  // What was searched: schema::SearchText of the tool.
  const std::string& search_text(int index) const {
    return search_texts_[static_cast<size_t>(index)];
  }
  const Bm25Index& bm25() const { return bm25_; }
  const NameIndex& names() const { return names_; }
  // Row r is tool r. Null without an encoder.
  const Slb* slb() const { return slb_.get(); }
  const std::string& encoder_fingerprint() const {
    return encoder_fingerprint_;
  }
  // Equal numbers: the same tool to a user (equal twin_key or canonical text).
  std::span<const int> twin_class() const { return twin_class_; }

  // Texts that had to be embedded, and rows found in the cache.
  int embedded_count() const { return embedded_count_; }
  int cached_count() const { return cached_count_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  ToolIndex(std::vector<schema::ToolSchema> tools,
            std::vector<std::string> search_texts);

  Status EmbedTools(llm::Embedder& embedder, const ToolIndexOptions& options);
  void SaveCache(FileSystem& fs, const Slb& known,
                 const std::string& fingerprint,
                 const ToolIndexOptions& options);

  std::vector<schema::ToolSchema> tools_;
  std::vector<std::string> search_texts_;
  Bm25Index bm25_;
  NameIndex names_;
  std::unique_ptr<Slb> slb_;
  std::string encoder_fingerprint_;
  std::vector<int> twin_class_;
  int embedded_count_ = 0;
  int cached_count_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_TOOL_INDEX_H_
