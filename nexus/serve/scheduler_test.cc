#include "nexus/serve/scheduler.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::serve {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

// Opened once, by anybody.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool Wait(milliseconds limit = milliseconds(10000)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// What ran, in order; written by the inference thread alone, read behind Stop.
struct Log {
  std::vector<std::string> lines;
  Scheduler::Work Writes(std::string line) {
    return [this, line](Ticket& ticket) {
      lines.push_back(ticket.is_cancelled() ? line + " cancelled" : line);
    };
  }
};

// Holds the thread, so that a test can fill the queue behind it.
class Blocker {
 public:
  explicit Blocker(Scheduler& scheduler) {
    auto ticket = scheduler.Submit(0, [this](Ticket&) {
      began_.Open();
      open_.Wait();
    });
    EXPECT_TRUE(ticket.ok());
    EXPECT_TRUE(began_.Wait());
  }
  void Release() { open_.Open(); }

 private:
  Gate began_;
  Gate open_;
};

void Settle(Scheduler& scheduler) {
  Gate done;
  ASSERT_OK(scheduler.Submit(999, [&](Ticket&) { done.Open(); }));
  ASSERT_TRUE(done.Wait());
}

TEST(SchedulerTest, ConversationsTakeTurns) {
  Log log;
  Scheduler scheduler;
  Blocker blocker(scheduler);
  for (const int i : {1, 2, 3}) {
    ASSERT_OK(scheduler.Submit(1, log.Writes("a" + std::to_string(i))));
  }
  ASSERT_OK(scheduler.Submit(2, log.Writes("b1")));
  ASSERT_OK(scheduler.Submit(2, log.Writes("b2")));
  ASSERT_OK(scheduler.Submit(3, log.Writes("c1")));
  blocker.Release();
  Settle(scheduler);
  Settle(scheduler);
  Settle(scheduler);
  scheduler.Stop();
  EXPECT_THAT(log.lines, ElementsAre("a1", "b1", "c1", "a2", "b2", "a3"));
}

TEST(SchedulerTest, SeveralRunAtOnceButOneOfAConversation) {
  Scheduler scheduler({.max_running = 3});
  Gate all_began;
  Gate open;
  std::atomic<int> began{0};
  std::atomic<int> of_one{0};
  std::atomic<int> idle{0};
  const auto work = [&](Ticket&) {
    if (++began == 3) all_began.Open();
    open.Wait();
  };
  for (const uint64_t conversation : {1, 2, 3}) {
    ASSERT_TRUE(scheduler.Submit(conversation, work).ok());
    ASSERT_TRUE(scheduler
                    .Submit(conversation,
                            [&](Ticket&) {
                              EXPECT_TRUE(open.Wait(milliseconds(0)));
                              ++of_one;
                            })
                    .ok());
  }
  scheduler.SetIdle(1, [&](Ticket&) {
    EXPECT_EQ(of_one, 3);
    ++idle;
    return true;
  });
  ASSERT_TRUE(all_began.Wait());
  EXPECT_EQ(scheduler.counts().running, 3U);
  EXPECT_EQ(scheduler.counts().waiting, 3U);
  open.Open();
  for (int i = 0; i < 1000 && idle == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(idle, 1);
  scheduler.Stop();
  EXPECT_EQ(of_one, 3);
  EXPECT_EQ(scheduler.counts().finished, 6U);
}

TEST(SchedulerTest, RefusesWhenTheQueueIsFull) {
  Log log;
  Scheduler scheduler({.max_waiting = 2});
  Blocker blocker(scheduler);
  ASSERT_OK(scheduler.Submit(1, log.Writes("a")));
  ASSERT_OK(scheduler.Submit(2, log.Writes("b")));
  EXPECT_EQ(scheduler.counts().waiting, 2U);
  EXPECT_EQ(scheduler.Admit().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(scheduler.Submit(3, log.Writes("c")).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(scheduler.counts().refused, 2U);
  EXPECT_GE(scheduler.RetryAfterSeconds(), 1);
  EXPECT_LE(scheduler.RetryAfterSeconds(), 60);
  blocker.Release();
}

TEST(SchedulerTest, CancelledRequestsMakeRoom) {
  Log log;
  Scheduler scheduler({.max_waiting = 1});
  Blocker blocker(scheduler);
  ASSERT_OK_AND_ASSIGN(const auto ticket, scheduler.Submit(1, log.Writes("a")));
  ticket->Cancel(CancelledError("gone"));
  ASSERT_OK(scheduler.Submit(2, log.Writes("b")));
  blocker.Release();
  scheduler.Stop();
  // It ran all the same, to say so.
  ASSERT_FALSE(log.lines.empty());
  EXPECT_EQ(log.lines[0], "a cancelled");
}

TEST(SchedulerTest, CancellingInterruptsWhatRuns) {
  Scheduler scheduler;
  Gate began;
  Gate interrupted;
  ASSERT_OK_AND_ASSIGN(const auto ticket, scheduler.Submit(1, [&](Ticket& own) {
    own.SetInterrupt([&] { interrupted.Open(); });
    began.Open();
    EXPECT_TRUE(interrupted.Wait());
    own.SetInterrupt({});
  }));
  ASSERT_TRUE(began.Wait());
  ticket->Cancel(DeadlineExceededError("late"));
  ticket->Cancel(CancelledError("later"));
  scheduler.Stop();
  EXPECT_EQ(ticket->status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(scheduler.counts().cancelled, 1U);
}

TEST(SchedulerTest, AnInterruptSetTooLateIsCalledAtOnce) {
  Ticket ticket;
  ticket.Cancel(CancelledError("gone"));
  bool called = false;
  ticket.SetInterrupt([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST(SchedulerTest, IdleWorkComesLastAndOnce) {
  Log log;
  Scheduler scheduler;
  Gate idle_done;
  {
    Blocker blocker(scheduler);
    scheduler.SetIdle(1, [&](Ticket&) {
      log.lines.push_back("old");
      return true;
    });
    scheduler.SetIdle(1, [&](Ticket&) {
      log.lines.push_back("idle");
      idle_done.Open();
      return true;
    });
    ASSERT_OK(scheduler.Submit(1, log.Writes("request")));
    blocker.Release();
    ASSERT_TRUE(idle_done.Wait());
  }
  Settle(scheduler);
  scheduler.Stop();
  EXPECT_THAT(log.lines, ElementsAre("request", "idle"));
}

TEST(SchedulerTest, KeepsTheLatestIdleWork) {
  Log log;
  Scheduler scheduler({.max_idle = 2});
  Gate done;
  {
    Blocker blocker(scheduler);
    for (const uint64_t i : {1, 2, 3}) {
      scheduler.SetIdle(i, [&log, &done, i](Ticket&) {
        log.lines.push_back(std::to_string(i));
        if (i == 3) done.Open();
        return true;
      });
    }
    blocker.Release();
    ASSERT_TRUE(done.Wait());
  }
  scheduler.Stop();
  EXPECT_THAT(log.lines, ElementsAre("2", "3"));
}

TEST(SchedulerTest, ARequestInterruptsIdleWork) {
  Log log;
  Scheduler scheduler;
  Gate began;
  Gate again;
  int runs = 0;
  scheduler.SetIdle(1, [&](Ticket& own) {
    if (++runs == 2) {
      again.Open();
      return true;
    }
    Gate interrupted;
    own.SetInterrupt([&] { interrupted.Open(); });
    began.Open();
    EXPECT_TRUE(interrupted.Wait());
    own.SetInterrupt({});
    log.lines.push_back("idle cut");
    return false;
  });
  ASSERT_TRUE(began.Wait());
  ASSERT_OK(scheduler.Submit(2, log.Writes("request")));
  ASSERT_TRUE(again.Wait());
  scheduler.Stop();
  EXPECT_THAT(log.lines, ElementsAre("idle cut", "request"));
}

TEST(SchedulerTest, StopCancelsWhatWaitsAndRuns) {
  Log log;
  Scheduler scheduler;
  Gate began;
  ASSERT_OK(scheduler.Submit(1, [&](Ticket& own) {
    Gate interrupted;
    own.SetInterrupt([&] { interrupted.Open(); });
    began.Open();
    EXPECT_TRUE(interrupted.Wait());
    own.SetInterrupt({});
  }));
  ASSERT_TRUE(began.Wait());
  ASSERT_OK_AND_ASSIGN(const auto waiting,
                       scheduler.Submit(2, log.Writes("waiting")));
  scheduler.Stop();
  EXPECT_THAT(log.lines, ElementsAre("waiting cancelled"));
  EXPECT_EQ(waiting->status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(scheduler.Submit(3, log.Writes("late")).status().code(),
            StatusCode::kUnavailable);
}

}  // namespace
}  // namespace nexus::serve
