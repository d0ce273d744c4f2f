#include "nexus/serve/tool_router.h"

#include <utility>

namespace nexus::serve {

// An encoder that several routers may use at once.
class ToolRouter::SharedEmbedder : public llm::Embedder {
 public:
  explicit SharedEmbedder(std::unique_ptr<llm::Embedder> embedder)
      : embedder_(std::move(embedder)) {}

  int dimension() const override { return embedder_->dimension(); }
  std::string fingerprint() const override { return embedder_->fingerprint(); }
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole role) override {
    MutexLock lock(mutex_);
    return embedder_->Embed(texts, role);
  }

 private:
  const std::unique_ptr<llm::Embedder> embedder_;
  Mutex mutex_;
};

ToolRouter::ToolRouter(std::unique_ptr<llm::Embedder> embedder,
                       const ToolRouterOptions& options)
    : embedder_(embedder == nullptr
                    ? nullptr
                    : std::make_unique<SharedEmbedder>(std::move(embedder))),
      options_(options) {}

ToolRouter::~ToolRouter() = default;

bool ToolRouter::has_encoder() const { return embedder_ != nullptr; }

Result<std::shared_ptr<const route::Router>> ToolRouter::RouterFor(
    std::span<const schema::ToolSchema> tools) {
  // In their order: the decision's tool numbers are places in the list.
  Sha256 hash;
  for (const schema::ToolSchema& tool : tools) {
    hash.Update(tool.server);
    hash.Update(std::string_view("\0", 1));
    hash.Update(schema::CanonicalText(tool));
    hash.Update(std::string_view("\0", 1));
  }
  const Sha256Digest key = hash.Finish();
  {
    MutexLock lock(mutex_);
    for (auto it = lists_.begin(); it != lists_.end(); ++it) {
      if (it->key != key) continue;
      lists_.splice(lists_.begin(), lists_, it);
      return it->router;
    }
  }
  // Without the lock: it may take seconds for a long new list, and two who
  // build the same one only waste time.
  NEXUS_ASSIGN_OR_RETURN(
      auto index,
      route::ToolIndex::Build({tools.begin(), tools.end()}, embedder_.get(),
                              {.cache_path = options_.embedding_cache}));
  auto router = std::make_shared<const route::Router>(
      std::move(index), embedder_.get(), options_.router);
  MutexLock lock(mutex_);
  lists_.push_front({.key = key, .router = router});
  if (lists_.size() > options_.max_lists) lists_.pop_back();
  return router;
}

Result<route::RouteDecision> ToolRouter::Route(
    std::span<const schema::ToolSchema> tools, std::string_view query,
    const route::RouteOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(const auto router, RouterFor(tools));
  return router->Route(query, options);
}

Result<std::vector<std::vector<float>>> ToolRouter::Embed(
    std::span<const std::string> texts, llm::TextRole role) {
  if (embedder_ == nullptr) {
    return UnimplementedError("this server runs without an encoder");
  }
  return embedder_->Embed(texts, role);
}

}  // namespace nexus::serve
