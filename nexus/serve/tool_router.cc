#include "nexus/serve/tool_router.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>

namespace nexus::serve {
namespace {

// How late a caller's leaving may be noticed by who waits for a turn.
constexpr std::chrono::milliseconds kLookInterval{20};

// Between two pieces other callers of a model have their turn, and this one is
// asked whether it still waits: thirty-two long texts take seconds on a busy
// core.
constexpr int kPieceTexts = 8;

// run(texts) -> Result of a vector with one T a text.
template <typename T, typename Run>
Result<std::vector<T>> InPieces(std::span<const std::string> texts,
                                const Caller& caller, const Run& run) {
  std::vector<T> all;
  while (!texts.empty()) {
    NEXUS_RETURN_IF_ERROR(caller.Check());
    const size_t count = std::min(texts.size(), size_t{kPieceTexts});
    NEXUS_ASSIGN_OR_RETURN(std::vector<T> some, run(texts.first(count)));
    std::move(some.begin(), some.end(), std::back_inserter(all));
    texts = texts.subspan(count);
  }
  return all;
}

}  // namespace

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

std::shared_ptr<const route::Router> ToolRouter::Find(const Sha256Digest& key) {
  for (auto it = lists_.begin(); it != lists_.end(); ++it) {
    if (it->key != key) continue;
    lists_.splice(lists_.begin(), lists_, it);
    return it->router;
  }
  return nullptr;
}

Result<std::shared_ptr<const route::Router>> ToolRouter::RouterFor(
    std::span<const schema::ToolSchema> tools, const Caller& caller) {
  // In their order: the decision's tool numbers are places in the list.
  Sha256 hash;
  for (const schema::ToolSchema& tool : tools) {
    hash.Update(tool.server);
    hash.Update(std::string_view("\0", 1));
    hash.Update(schema::CanonicalText(tool));
    hash.Update(std::string_view("\0", 1));
  }
  const Sha256Digest key = hash.Finish();
  MutexLock lock(mutex_);
  while (true) {
    if (auto router = Find(key)) return router;
    // Who wants the same list waits for it, or goes on where a caller left.
    if (building_.size() < options_.max_builds && !building_.contains(key)) {
      break;
    }
    NEXUS_RETURN_IF_ERROR(caller.Check());
    built_.WaitFor(lock, kLookInterval);
  }
  building_.insert(key);
  lock.Unlock();
  auto router = Build(tools, caller);
  lock.Lock();
  building_.erase(key);
  built_.NotifyAll();
  NEXUS_RETURN_IF_ERROR(router.status());
  lists_.push_front({.key = key, .router = *router});
  if (lists_.size() > options_.max_lists) lists_.pop_back();
  return router;
}

Result<std::shared_ptr<const route::Router>> ToolRouter::Build(
    std::span<const schema::ToolSchema> tools, const Caller& caller) {
  Status wanted = caller.Check();
  NEXUS_RETURN_IF_ERROR(wanted);
  std::atomic<bool> cancel{false};
  route::ToolIndexOptions options;
  options.cache_path = options_.embedding_cache;
  options.batch_texts = kPieceTexts;
  options.cancel = &cancel;
  options.progress = [&](int /*done*/, int /*total*/) {
    wanted = caller.Check();
    if (!wanted.ok()) cancel = true;
  };
  auto index = route::ToolIndex::Build({tools.begin(), tools.end()},
                                       embedder_.get(), options);
  NEXUS_RETURN_IF_ERROR(wanted);
  NEXUS_RETURN_IF_ERROR(index.status());
  return std::make_shared<const route::Router>(
      *std::move(index), embedder_.get(), options_.router, reranker_.get());
}

Result<route::RouteDecision> ToolRouter::Route(
    std::span<const schema::ToolSchema> tools, std::string_view query,
    const route::RouteOptions& options, const Caller& caller) {
  NEXUS_ASSIGN_OR_RETURN(const auto router, RouterFor(tools, caller));
  return router->Route(query, options);
}

Result<std::vector<std::vector<float>>> ToolRouter::Embed(
    std::span<const std::string> texts, llm::TextRole role,
    const Caller& caller) {
  if (embedder_ == nullptr) {
    return UnimplementedError("this server runs without an encoder");
  }
  return InPieces<std::vector<float>>(texts, caller,
                                      [&](std::span<const std::string> piece) {
                                        return embedder_->Embed(piece, role);
                                      });
}

std::string ToolRouter::scorer() const {
  if (reranker_ != nullptr) return reranker_->name();
  return embedder_ != nullptr ? "cosine" : "";
}

Result<std::vector<float>> ToolRouter::Score(
    std::string_view query, std::span<const std::string> documents,
    const Caller& caller) {
  if (reranker_ != nullptr) {
    return InPieces<float>(documents, caller,
                           [&](std::span<const std::string> piece) {
                             return reranker_->Score(query, piece);
                           });
  }
  if (embedder_ == nullptr) {
    return UnimplementedError(
        "this server runs without a re-ranker and without an encoder");
  }
  const std::string text(query);
  NEXUS_ASSIGN_OR_RETURN(const auto asked,
                         embedder_->Embed({&text, 1}, llm::TextRole::kQuery));
  NEXUS_ASSIGN_OR_RETURN(const auto read,
                         Embed(documents, llm::TextRole::kDocument, caller));
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
