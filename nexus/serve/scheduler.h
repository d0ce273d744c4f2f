// Scheduler: the one inference thread, and who may use it next.
//
// A piece of work runs from its beginning to its end, so that a session's
// decodes have nothing between them (docs/determinism.md); where several may
// run at once, each on a thread of its own, they divide the engine among them
// (engine/step_batch.h). One of a conversation runs at a time. Conversations
// take turns, whatever the number of requests that each has waiting. Behind all
// of them comes idle work: it is cancelled as soon as a request arrives, and
// begun again later.
#ifndef NEXUS_SERVE_SCHEDULER_H_
#define NEXUS_SERVE_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "nexus/base/clock.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"

namespace nexus::serve {

// A piece of work as others see it. Thread-safe.
class Ticket {
 public:
  // Asks the work to end; the first reason stays.
  void Cancel(Status why) EXCLUDES(mutex_);
  bool is_cancelled() const { return cancelled_.load(); }
  // What long loops look at.
  const std::atomic<bool>* flag() const { return &cancelled_; }
  Status status() const EXCLUDES(mutex_);  // ok: not cancelled

  // Of the work itself: called once when the ticket is cancelled, from the
  // thread that does so, or at once if it already is. An empty one takes it
  // away; after that it is neither running nor to come.
  void SetInterrupt(std::function<void()> interrupt) EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::atomic<bool> cancelled_{false};
  Status why_ GUARDED_BY(mutex_);
  std::function<void()> interrupt_ GUARDED_BY(mutex_);
};

struct SchedulerOptions {
  size_t max_waiting = 64;
  // Above 1, the work divides what it uses among threads by itself.
  size_t max_running = 1;
  // Under load idle work has no turn: of more conversations the oldest goes.
  size_t max_idle = 16;
};

struct SchedulerCounts {
  size_t waiting = 0;
  size_t running = 0;
  uint64_t finished = 0;
  uint64_t cancelled = 0;
  uint64_t refused = 0;
  uint64_t idle_runs = 0;
};

// Thread-safe.
class Scheduler {
 public:
  // Runs exactly once, on an inference thread, even when its ticket was
  // cancelled before: it then has to say so to whoever waits for it. Mustn't
  // throw.
  using Work = std::function<void(Ticket&)>;
  // Its ticket is cancelled when a request comes. False: not finished, to be
  // run again.
  using IdleWork = std::function<bool(Ticket&)>;

  explicit Scheduler(const SchedulerOptions& options = {});
  ~Scheduler();  // Stop()
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // `conversation`: which others it takes turns with. kResourceExhausted when
  // too many wait, kUnavailable after Stop.
  Result<std::shared_ptr<Ticket>> Submit(uint64_t conversation, Work work)
      EXCLUDES(mutex_);
  // What Submit would say now, counted as its answer: to be asked before costly
  // preparations.
  Status Admit() EXCLUDES(mutex_);
  // To be done when nobody waits and nothing runs; replaces the conversation's
  // earlier.
  void SetIdle(uint64_t conversation, IdleWork work) EXCLUDES(mutex_);

  // When to try again after a refusal, from how long requests took lately.
  int RetryAfterSeconds() const EXCLUDES(mutex_);
  SchedulerCounts counts() const EXCLUDES(mutex_);

  // Cancels everything, waits for the threads' end.
  void Stop() EXCLUDES(mutex_);

 private:
  struct Item {
    Work work;
    std::shared_ptr<Ticket> ticket;
  };

  void Run();
  bool HasWork() const REQUIRES(mutex_);
  void RunRequest(uint64_t conversation, Item item) EXCLUDES(mutex_);
  void RunIdle(uint64_t conversation, IdleWork work, Ticket& ticket)
      EXCLUDES(mutex_);
  size_t WaitingCount() const REQUIRES(mutex_);
  Status CheckRoom() const REQUIRES(mutex_);

  const SchedulerOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, std::deque<Item>> waiting_ GUARDED_BY(mutex_);
  // Keys of waiting_, but for those of which one runs.
  std::deque<uint64_t> turns_ GUARDED_BY(mutex_);
  std::deque<std::pair<uint64_t, IdleWork>> idle_ GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<Ticket>> running_ GUARDED_BY(mutex_);
  std::shared_ptr<Ticket> running_idle_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  SchedulerCounts counts_ GUARDED_BY(mutex_);
  double mean_seconds_ GUARDED_BY(mutex_) = 1;
  std::vector<std::thread> threads_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_SCHEDULER_H_
