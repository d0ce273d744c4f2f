// Mutex, MutexLock, CondVar: the standard ones with Clang's thread-safety
// attributes, which libstdc++ lacks. The `clang` preset turns a forgotten lock
// into a compile error; other compilers see nothing.
//
//   Mutex mutex_;
//   std::deque<Request> queue_ GUARDED_BY(mutex_);
//
//   MutexLock lock(mutex_);
//   while (queue_.empty()) not_empty_.Wait(lock);
//
// Conditions are written as loops and not as predicates: the analysis doesn't
// look into a lambda with the lock held.
#ifndef NEXUS_BASE_MUTEX_H_
#define NEXUS_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define NEXUS_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define NEXUS_THREAD_ATTRIBUTE(x)
#endif

#define CAPABILITY(x) NEXUS_THREAD_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY NEXUS_THREAD_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) NEXUS_THREAD_ATTRIBUTE(guarded_by(x))
#define PT_GUARDED_BY(x) NEXUS_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define ACQUIRED_BEFORE(...) \
  NEXUS_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
#define ACQUIRED_AFTER(...) NEXUS_THREAD_ATTRIBUTE(acquired_after(__VA_ARGS__))
#define REQUIRES(...) NEXUS_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) NEXUS_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) NEXUS_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) NEXUS_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) \
  NEXUS_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS \
  NEXUS_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace nexus {

class CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ACQUIRE() { mutex_.lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // To call out without the lock; the destructor copes with either state.
  void Unlock() RELEASE() { lock_.unlock(); }
  void Lock() ACQUIRE() { lock_.lock(); }

 private:
  friend class CondVar;
  std::unique_lock<std::mutex> lock_;
};

// Wait gives the lock up while it sleeps and has it again when it returns,
// which may also be for no reason: test the condition in a loop.
class CondVar {
 public:
  void Wait(MutexLock& lock) { condition_.wait(lock.lock_); }

  // False when the time was up.
  bool WaitUntil(MutexLock& lock,
                 std::chrono::steady_clock::time_point deadline) {
    return condition_.wait_until(lock.lock_, deadline) ==
           std::cv_status::no_timeout;
  }
  bool WaitFor(MutexLock& lock, std::chrono::nanoseconds timeout) {
    return WaitUntil(lock, std::chrono::steady_clock::now() + timeout);
  }

  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace nexus

#endif  // NEXUS_BASE_MUTEX_H_
