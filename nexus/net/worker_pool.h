// WorkerPool: a thread for each task at once, up to a limit, made when one is
// wanted and kept for the next. Tasks here wait for most of their life, so one
// that waits must never stand before another.
#ifndef NEXUS_NET_WORKER_POOL_H_
#define NEXUS_NET_WORKER_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "nexus/base/mutex.h"

namespace nexus::net {

// Thread-safe.
class WorkerPool {
 public:
  explicit WorkerPool(size_t max_threads) : max_threads_(max_threads) {}
  ~WorkerPool() { Shutdown(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // False: every thread has work, or Shutdown was called.
  bool Start(std::function<void()> task) EXCLUDES(mutex_);
  // Waits for the tasks at work.
  void Shutdown() EXCLUDES(mutex_);

 private:
  void Run();

  const size_t max_threads_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ GUARDED_BY(mutex_);
  size_t idle_ GUARDED_BY(mutex_) = 0;
  bool ending_ GUARDED_BY(mutex_) = false;
};

}  // namespace nexus::net

#endif  // NEXUS_NET_WORKER_POOL_H_
