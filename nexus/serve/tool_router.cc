#include "nexus/serve/tool_router.h"

#include <numeric>
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

class ToolRouter::SharedReranker : public llm::Reranker {
 public:
  explicit SharedReranker(std::unique_ptr<llm::Reranker> reranker)
      : reranker_(std::move(reranker)) {}

  std::string name() const override { return reranker_->name(); }
  std::string fingerprint() const override { return reranker_->fingerprint(); }
  Result<std::vector<float>> Score(
      std::string_view query, std::span<const std::string> documents) override {
    MutexLock lock(mutex_);
    return reranker_->Score(query, documents);
  }

 private:
  const std::unique_ptr<llm::Reranker> reranker_;
  Mutex mutex_;
};

ToolRouter::ToolRouter(std::unique_ptr<llm::Embedder> embedder,
                       const ToolRouterOptions& options,
                       std::unique_ptr<llm::Reranker> reranker)
    : embedder_(embedder == nullptr
                    ? nullptr
                    : std::make_unique<SharedEmbedder>(std::move(embedder))),
      reranker_(reranker == nullptr
                    ? nullptr
                    : std::make_unique<SharedReranker>(std::move(reranker))),
      options_(options) {}

ToolRouter::~ToolRouter() = default;

bool ToolRouter::has_encoder() const { return embedder_ != nullptr; }

bool ToolRouter::has_reranker() const { return reranker_ != nullptr; }

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
      std::move(index), embedder_.get(), options_.router, reranker_.get());
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

std::string ToolRouter::scorer() const {
  if (reranker_ != nullptr) return reranker_->name();
  return embedder_ != nullptr ? "cosine" : "";
}

Result<std::vector<float>> ToolRouter::Score(
    std::string_view query, std::span<const std::string> documents) {
  if (reranker_ != nullptr) return reranker_->Score(query, documents);
  if (embedder_ == nullptr) {
    return UnimplementedError(
        "this server runs without a re-ranker and without an encoder");
  }
  const std::string text(query);
  NEXUS_ASSIGN_OR_RETURN(const auto asked,
                         embedder_->Embed({&text, 1}, llm::TextRole::kQuery));
  NEXUS_ASSIGN_OR_RETURN(const auto read,
                         embedder_->Embed(documents, llm::TextRole::kDocument));
  std::vector<float> scores;
  scores.reserve(read.size());
  for (const std::vector<float>& vector : read) {
    // Unit vectors: the dot product is the cosine.
    scores.push_back(std::inner_product(vector.begin(), vector.end(),
                                        asked.front().begin(), 0.0F));
  }
  return scores;
}

}  // namespace nexus::serve
