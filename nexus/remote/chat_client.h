// ChatClient: one chat completion from the pool, with retries and failover.
//
// The next replica is asked at once; when all have been asked there is a pause
// (backoff with jitter, or what the remote asked for) and a new round. A
// request is repeated only where the error may go away and nothing of an answer
// has gone out.
#ifndef NEXUS_REMOTE_CHAT_CLIENT_H_
#define NEXUS_REMOTE_CHAT_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "nexus/base/json.h"
#include "nexus/remote/backend_pool.h"
#include "nexus/remote/backoff.h"

namespace nexus::remote {

struct ChatClientOptions {
  int max_attempts = 4;
  BackoffOptions backoff;
  std::chrono::milliseconds silence{120000};  // of a stream; 0: any
  // For tests: in place of sleeping. False: the client has gone meanwhile.
  std::function<bool(std::chrono::milliseconds)> sleep;
};

struct ChatCall {
  std::string body;
  uint64_t key = 0;  // PrefixKey
  bool is_stream = false;
  std::chrono::steady_clock::time_point deadline;
  std::function<bool()> should_cancel;   // may be asked from another thread
  std::function<bool(Json&&)> on_chunk;  // of a stream
};

struct ChatReply {
  std::optional<RemoteError> error;
  Json whole;           // not of a stream
  std::string replica;  // the last one asked
  int attempts = 0;
};

// Thread-safe. The pool must outlive it.
class ChatClient {
 public:
  ChatClient(BackendPool* pool, ChatClientOptions options)
      : pool_(pool), options_(std::move(options)) {}

  ChatReply Send(const ChatCall& call);

  BackendPool& pool() { return *pool_; }
  // Attempts beyond the first of a request.
  uint64_t retries() const { return retries_; }

 private:
  // nullopt: an answer. `any_sent`: chunks have gone out.
  std::optional<RemoteError> Try(const ChatCall& call, size_t replica,
                                 Json* whole, bool* any_sent);
  bool Pause(const ChatCall& call, std::chrono::milliseconds pause) const;

  BackendPool* const pool_;
  const ChatClientOptions options_;
  std::atomic<uint64_t> retries_{0};
};

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_CHAT_CLIENT_H_
