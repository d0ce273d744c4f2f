#include "nexus/serve/session_cache.h"

#include <algorithm>
#include <string>
#include <utility>

namespace nexus::serve {

size_t SessionCache::Limit() const {
  int64_t limit = std::max(1, options_.max_sessions);
  if (options_.max_cells > 0) {
    limit = std::clamp<int64_t>(
        options_.max_cells / engine_->options().context_tokens, 1, limit);
  }
  return static_cast<size_t>(limit);
}

Result<HeldSession*> SessionCache::Acquire(
    std::span<const llm::Token> conversation,
    std::span<const llm::Token> prompt) {
  auto best = held_.end();
  std::pair<size_t, size_t> most = {0, 0};
  for (auto it = held_.begin(); it != held_.end(); ++it) {
    const std::vector<llm::Token>& begun = (*it)->conversation;
    const bool continues =
        !begun.empty() && begun.size() <= conversation.size() &&
        std::equal(begun.begin(), begun.end(), conversation.begin());
    if (!continues || (*it)->is_busy) continue;
    const std::pair<size_t, size_t> holds = {
        (*it)->session->ExactPrefix(prompt), begun.size()};
    if (best == held_.end() || holds >= most) {
      best = it;
      most = holds;
    }
  }
  const bool continues = best != held_.end();
  if (continues) {
    ++counts_.continued;
  } else if (held_.size() < Limit()) {
    auto held = std::make_unique<HeldSession>();
    NEXUS_ASSIGN_OR_RETURN(held->session, engine::Session::Create(engine_));
    best = held_.insert(held_.end(), std::move(held));
    ++counts_.created;
  } else {
    best = std::find_if(held_.begin(), held_.end(),
                        [](const auto& held) { return !held->is_busy; });
    if (best == held_.end()) {
      return ResourceExhaustedError("all " + std::to_string(held_.size()) +
                                    " sessions are at work");
    }
    (*best)->session->ForgetBlocks();
    ++counts_.taken_over;
  }
  if (!continues) NEXUS_RETURN_IF_ERROR(Begin(**best, prompt));
  std::rotate(best, best + 1, held_.end());
  HeldSession* held = held_.back().get();
  held->conversation.assign(conversation.begin(), conversation.end());
  held->lease = ++last_lease_;
  counts_.held = held_.size();
  return held;
}

Status SessionCache::Begin(HeldSession& held,
                           std::span<const llm::Token> prompt) {
  engine::Session& session = *held.session;
  size_t most = session.SharedPrefix(prompt);
  engine::Session* donor = nullptr;
  for (const auto& other : held_) {
    const size_t shared = other->session->SharedPrefix(prompt);
    if (shared <= most) continue;
    most = shared;
    donor = other->session.get();
  }
  if (donor == nullptr) {
    counts_.shared_tokens += most;
    return session.TruncateTo(most);
  }
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(0));
  // What can't be copied is decoded.
  if (session.CopyPrefix(*donor, most).ok()) counts_.shared_tokens += most;
  return Status::Ok();
}

HeldSession* SessionCache::Find(uint64_t lease) {
  for (const auto& held : held_) {
    if (held->lease == lease) return held.get();
  }
  return nullptr;
}

void SessionCache::Adopt(std::unique_ptr<engine::Session> session,
                         std::vector<llm::Token> conversation) {
  auto held = std::make_unique<HeldSession>();
  held->session = std::move(session);
  held->conversation = std::move(conversation);
  held->lease = ++last_lease_;
  held_.push_back(std::move(held));
  counts_.held = held_.size();
}

void SessionCache::Drop(uint64_t lease) {
  std::erase_if(held_, [&](const auto& held) { return held->lease == lease; });
  counts_.held = held_.size();
}

}  // namespace nexus::serve
