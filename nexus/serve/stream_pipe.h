// StreamPipe: pieces of a stream from the thread that gets them to the thread
// that sends them, bounded: a client that reads slowly slows its remote down.
#ifndef NEXUS_SERVE_STREAM_PIPE_H_
#define NEXUS_SERVE_STREAM_PIPE_H_

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "nexus/base/mutex.h"
#include "nexus/serve/api_error.h"

namespace nexus::serve {

// Thread-safe.
class StreamPipe {
 public:
  explicit StreamPipe(size_t max_pieces = 256) : max_pieces_(max_pieces) {}

  // Waits for room. False: nobody reads it any more.
  bool Push(std::string piece) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (pieces_.size() >= max_pieces_ && !closed_) changed_.Wait(lock);
    if (closed_) return false;
    pieces_.push_back(std::move(piece));
    changed_.NotifyAll();
    return true;
  }
  void End(std::optional<ApiError> error) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ended_ = true;
    error_ = std::move(error);
    changed_.NotifyAll();
  }

  // The next piece; nullopt: nothing came in time, or all has been read.
  std::optional<std::string> Pop(std::chrono::milliseconds wait)
      EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + wait;
    while (pieces_.empty() && !ended_) {
      if (!changed_.WaitUntil(lock, until)) break;
    }
    if (pieces_.empty()) return std::nullopt;
    std::string piece = std::move(pieces_.front());
    pieces_.pop_front();
    changed_.NotifyAll();
    return piece;
  }
  bool has_ended() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return ended_ && pieces_.empty();
  }
  // Once it has ended.
  std::optional<ApiError> error() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return error_;
  }
  void Close() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

 private:
  const size_t max_pieces_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> pieces_ GUARDED_BY(mutex_);
  std::optional<ApiError> error_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_STREAM_PIPE_H_
