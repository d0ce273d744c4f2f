// ToolRouter: routes among whatever list of tools a request brings.
//
// A list's index (its words, its embeddings) is built at first sight and kept
// for the next requests of the same conversation, which bring the same list. It
// is built on the caller's thread, for as long as somebody waits for it.
#ifndef NEXUS_SERVE_TOOL_ROUTER_H_
#define NEXUS_SERVE_TOOL_ROUTER_H_

#include <list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/llm/embedder.h"
#include "nexus/llm/reranker.h"
#include "nexus/route/router.h"
#include "nexus/serve/caller.h"

namespace nexus::serve {

struct ToolRouterOptions {
  route::RouterOptions router;
  // Embeddings by the hash of their text; empty: none.
  std::string embedding_cache;
  size_t max_lists = 16;
  // Indexes that are built at once: a long list takes seconds, and beside it a
  // short one should still have its turn. Others wait.
  size_t max_builds = 2;
};

// Thread-safe. The encoder runs for one caller at a time, and so does the
// re-ranker.
class ToolRouter {
 public:
  // `embedder` null: words only. `reranker` null: close calls stay close.
  ToolRouter(std::unique_ptr<llm::Embedder> embedder,
             const ToolRouterOptions& options,
             std::unique_ptr<llm::Reranker> reranker = nullptr);
  ~ToolRouter();

  // kDeadlineExceeded, kCancelled: the caller's, before there was an index.
  Result<route::RouteDecision> Route(std::span<const schema::ToolSchema> tools,
                                     std::string_view query,
                                     const route::RouteOptions& options,
                                     const Caller& caller = {})
      EXCLUDES(mutex_);

  bool has_encoder() const;
  bool has_reranker() const;
  // kUnimplemented without an encoder.
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole role,
      const Caller& caller = {});
  // What scores pairs: the re-ranker's name, "cosine" of the encoder where
  // there is none, empty where there is neither.
  std::string scorer() const;
  // One score a document, higher is better: the re-ranker's logits, or
  // cosines. kUnimplemented with neither.
  Result<std::vector<float>> Score(std::string_view query,
                                   std::span<const std::string> documents,
                                   const Caller& caller = {});

 private:
  class SharedEmbedder;
  class SharedReranker;
  struct List {
    Sha256Digest key;
    std::shared_ptr<const route::Router> router;
  };
  Result<std::shared_ptr<const route::Router>> RouterFor(
      std::span<const schema::ToolSchema> tools, const Caller& caller)
      EXCLUDES(mutex_);
  Result<std::shared_ptr<const route::Router>> Build(
      std::span<const schema::ToolSchema> tools, const Caller& caller);
  // Null: not there.
  std::shared_ptr<const route::Router> Find(const Sha256Digest& key)
      REQUIRES(mutex_);

  const std::unique_ptr<SharedEmbedder> embedder_;  // null: none
  const std::unique_ptr<SharedReranker> reranker_;  // null: none
  const ToolRouterOptions options_;
  Mutex mutex_;
  CondVar built_;
  std::list<List> lists_ GUARDED_BY(mutex_);  // last used in front
  std::set<Sha256Digest> building_ GUARDED_BY(mutex_);
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_TOOL_ROUTER_H_
