// Outbox: messages that wait for a client to take them. Whoever has one to send
// never waits: a client that doesn't read must not hold up servers.
#ifndef NEXUS_GATEWAY_OUTBOX_H_
#define NEXUS_GATEWAY_OUTBOX_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "nexus/base/mutex.h"

namespace nexus::gateway {

// Thread-safe.
class Outbox {
 public:
  // `max_bytes` bounds what waits.
  explicit Outbox(size_t max_bytes) : max_bytes_(max_bytes) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // False: it is full or closed, and the text is dropped.
  bool Push(std::string text) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (closed_ || text.size() > max_bytes_ - bytes_) return false;
    bytes_ += text.size();
    texts_.push_back(std::move(text));
    changed_.NotifyAll();
    return true;
  }

  // The oldest; nothing when none came in time, or none will come any more.
  std::optional<std::string> Pop(std::chrono::milliseconds timeout)
      EXCLUDES(mutex_) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    MutexLock lock(mutex_);
    while (texts_.empty() && !closed_) {
      if (!changed_.WaitUntil(lock, deadline)) break;
    }
    if (texts_.empty()) return std::nullopt;
    std::string text = std::move(texts_.front());
    texts_.pop_front();
    bytes_ -= text.size();
    return text;
  }

  // Takes no more; what is there can still be popped.
  void Close() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }
  bool closed() const EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return closed_;
  }

 private:
  const size_t max_bytes_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> texts_ GUARDED_BY(mutex_);
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_OUTBOX_H_
