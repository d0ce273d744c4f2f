#include "nexus/net/worker_pool.h"

#include <utility>

namespace nexus::net {

bool WorkerPool::Start(std::function<void()> task) {
  MutexLock lock(mutex_);
  if (ending_) return false;
  // A task that was handed out but not taken yet has its thread already.
  if (tasks_.size() >= idle_) {
    if (threads_.size() >= max_threads_) return false;
    threads_.emplace_back([this] { Run(); });
    ++idle_;
  }
  tasks_.push_back(std::move(task));
  changed_.NotifyOne();
  return true;
}

void WorkerPool::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (tasks_.empty() && !ending_) changed_.Wait(lock);
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    --idle_;
    lock.Unlock();
    task();
    // What it holds goes without the lock.
    task = nullptr;
    lock.Lock();
    ++idle_;
  }
}

void WorkerPool::Shutdown() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    ending_ = true;
    threads.swap(threads_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace nexus::net
