#include "nexus/base/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace nexus {
namespace {

using std::chrono::milliseconds;

class Counter {
 public:
  void Add() EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++value_;
    changed_.NotifyAll();
  }
  int WaitForAtLeast(int value) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    while (value_ < value) changed_.Wait(lock);
    return value_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int value_ GUARDED_BY(mutex_) = 0;
};

TEST(MutexTest, LosesNoUpdateAndNoWakeUp) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 1000; ++i) counter.Add();
    });
  }
  EXPECT_EQ(counter.WaitForAtLeast(4000), 4000);
  for (std::thread& thread : threads) thread.join();
}

TEST(MutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  Mutex mutex;
  MutexLock lock(mutex);
  bool taken = true;
  std::thread([&]() NO_THREAD_SAFETY_ANALYSIS {
    taken = mutex.TryLock();
  }).join();
  EXPECT_FALSE(taken);
}

TEST(CondVarTest, WaitEndsWhenTheTimeIsUp) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(mutex);
  const auto start = std::chrono::steady_clock::now();
  // Loops over wake-ups for no reason.
  while (never.WaitUntil(lock, start + milliseconds(5))) {
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(5));
}

}  // namespace
}  // namespace nexus
