#include "nexus/net/worker_pool.h"

#include <atomic>
#include <latch>

#include "gtest/gtest.h"

namespace nexus::net {
namespace {

TEST(WorkerPoolTest, AllTasksRunAtOnce) {
  WorkerPool pool(16);
  // Each waits for all the others: one behind another would never end.
  std::latch all(16);
  for (int i = 0; i < 16; ++i) {
    ASSERT_TRUE(pool.Start([&] { all.arrive_and_wait(); }));
  }
  all.wait();
  pool.Shutdown();
}

TEST(WorkerPoolTest, RefusesMoreThanItsThreads) {
  WorkerPool pool(2);
  std::latch release(1);
  std::atomic<int> ran{0};
  const auto task = [&] {
    release.wait();
    ++ran;
  };
  EXPECT_TRUE(pool.Start(task));
  EXPECT_TRUE(pool.Start(task));
  EXPECT_FALSE(pool.Start(task));
  release.count_down();
  pool.Shutdown();
  EXPECT_EQ(ran, 2);
  EXPECT_FALSE(pool.Start(task));
}

TEST(WorkerPoolTest, ThreadsServeOneTaskAfterAnother) {
  WorkerPool pool(1);
  std::atomic<int> ran{0};
  for (int i = 0; i < 100; ++i) {
    while (!pool.Start([&] { ++ran; })) {
    }
  }
  pool.Shutdown();
  EXPECT_EQ(ran, 100);
}

}  // namespace
}  // namespace nexus::net
