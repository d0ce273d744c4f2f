// SessionCache: sessions, found again by what they hold.
//
// The chat API has no conversation ids: a client sends everything from the
// beginning. A session belongs to the request whose conversation begins with
// the one that the session answered last; its cells are then most of the
// prompt. Of several such the one that holds the most of the prompt is taken.
//
// Other conversations that begin alike (one system prompt, many agents) share
// what they can have without a bit of difference: Session::SharedPrefix.
#ifndef NEXUS_SERVE_SESSION_CACHE_H_
#define NEXUS_SERVE_SESSION_CACHE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/session.h"

namespace nexus::serve {

struct SessionCacheOptions {
  // Each has a llama context of its own with all its cells, from its first
  // request on: memory is this times the model's bytes a token times the
  // context length.
  int max_sessions = 4;
  // Of all sessions; bounds their number too. 0: no bound of its own. There is
  // always room for one session.
  int64_t max_cells = 0;
};

struct HeldSession {
  std::unique_ptr<engine::Session> session;
  // The conversation of the last request, as the model's template writes it.
  std::vector<llm::Token> conversation;
  // Changes whenever the session goes to another request.
  uint64_t lease = 0;
  // At work for a request: set and cleared by whoever acquired it, where
  // several are at work at once. Such a session goes to nobody else.
  bool is_busy = false;
};

struct SessionCacheCounts {
  uint64_t continued = 0;
  uint64_t created = 0;
  uint64_t taken_over = 0;     // the least recently used one, of another
  uint64_t shared_tokens = 0;  // that these began with
  size_t held = 0;
};

// Owned by the inference thread, or by whoever has the turn (step_batch.h). The
// engine must outlive it.
class SessionCache {
 public:
  SessionCache(const engine::Engine* engine, const SessionCacheOptions& options)
      : engine_(engine), options_(options) {}

  // The session to answer `conversation` with, by way of the tokens `prompt`,
  // and its lease; valid until the next Acquire, or while it is busy.
  // kResourceExhausted when all are. A session that is new, or was
  // another conversation's, begins with the longest prefix of the prompt that
  // any session can share, and with nothing else: what it answers doesn't
  // depend on whose it was, nor on who else is there.
  Result<HeldSession*> Acquire(std::span<const llm::Token> conversation,
                               std::span<const llm::Token> prompt);
  // The session of that lease, if nobody has had it since; else null.
  HeldSession* Find(uint64_t lease);
  // After a failure that leaves a session in doubt.
  void Drop(uint64_t lease);

  // Takes in a session that was kept from an earlier run, as the one used last.
  // There must be room().
  void Adopt(std::unique_ptr<engine::Session> session,
             std::vector<llm::Token> conversation);
  // How many sessions fit beside those held.
  size_t room() const { return Limit() - held_.size(); }

  // Last used at the end.
  const std::vector<std::unique_ptr<HeldSession>>& held() const {
    return held_;
  }
  const SessionCacheCounts& counts() const { return counts_; }

 private:
  size_t Limit() const;
  // Leaves in a session what it shares with the prompt, its own or another's.
  Status Begin(HeldSession& held, std::span<const llm::Token> prompt);

  const engine::Engine* engine_;
  const SessionCacheOptions options_;
  std::vector<std::unique_ptr<HeldSession>> held_;
  uint64_t last_lease_ = 0;
  SessionCacheCounts counts_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_SESSION_CACHE_H_
