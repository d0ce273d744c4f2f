// ToolRouter: routes among whatever list of tools a request brings.
//
// A list's index (its words, its embeddings) is built at first sight and kept
// for the next requests of the same conversation, which bring the same list.
#ifndef NEXUS_SERVE_TOOL_ROUTER_H_
#define NEXUS_SERVE_TOOL_ROUTER_H_

#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/llm/embedder.h"
#include "nexus/route/router.h"

namespace nexus::serve {

struct ToolRouterOptions {
  route::RouterOptions router;
  // Embeddings by the hash of their text; empty: none.
  std::string embedding_cache;
  size_t max_lists = 16;
};

// Thread-safe. The encoder runs for one caller at a time.
class ToolRouter {
 public:
  // `embedder` null: words only.
  ToolRouter(std::unique_ptr<llm::Embedder> embedder,
             const ToolRouterOptions& options);
  ~ToolRouter();

  Result<route::RouteDecision> Route(std::span<const schema::ToolSchema> tools,
                                     std::string_view query,
                                     const route::RouteOptions& options)
      EXCLUDES(mutex_);

  bool has_encoder() const;
  // kUnimplemented without an encoder.
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole role);

 private:
  class SharedEmbedder;
  struct List {
    Sha256Digest key;
    std::shared_ptr<const route::Router> router;
  };
  Result<std::shared_ptr<const route::Router>> RouterFor(
      std::span<const schema::ToolSchema> tools) EXCLUDES(mutex_);

  const std::unique_ptr<SharedEmbedder> embedder_;  // null: none
  const ToolRouterOptions options_;
  Mutex mutex_;
  std::list<List> lists_ GUARDED_BY(mutex_);  // last used in front
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_TOOL_ROUTER_H_
