#include "nexus/serve/scheduler.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace nexus::serve {
namespace {

// Cancelled requests wait for their turn like others, to say that they are. So
// many for each that may wait alive.
constexpr size_t kCancelledFactor = 4;
// Weight of the latest request in the mean that Retry-After is made of.
constexpr double kLatestWeight = 0.2;
constexpr int kLongestRetry = 60;

}  // namespace

void Ticket::Cancel(Status why) {
  MutexLock lock(mutex_);
  if (cancelled_) return;
  why_ = std::move(why);
  cancelled_ = true;
  // With the lock held: SetInterrupt({}) then waits for it.
  if (interrupt_) interrupt_();
}

Status Ticket::status() const {
  MutexLock lock(mutex_);
  return why_;
}

void Ticket::SetInterrupt(std::function<void()> interrupt) {
  MutexLock lock(mutex_);
  interrupt_ = std::move(interrupt);
  if (cancelled_ && interrupt_) interrupt_();
}

Scheduler::Scheduler(const SchedulerOptions& options) : options_(options) {
  for (size_t i = 0; i < std::max<size_t>(1, options_.max_running); ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

Scheduler::~Scheduler() { Stop(); }

size_t Scheduler::WaitingCount() const {
  size_t alive = 0;
  for (const auto& [conversation, items] : waiting_) {
    alive += static_cast<size_t>(std::count_if(
        items.begin(), items.end(),
        [](const Item& item) { return !item.ticket->is_cancelled(); }));
  }
  return alive;
}

Status Scheduler::CheckRoom() const {
  if (stopping_) return UnavailableError("the server is shutting down");
  size_t all = 0;
  for (const auto& [other, items] : waiting_) all += items.size();
  if (WaitingCount() >= options_.max_waiting ||
      all >= options_.max_waiting * kCancelledFactor) {
    return ResourceExhaustedError("too many requests are waiting (" +
                                  std::to_string(all) + "); try again later");
  }
  return Status::Ok();
}

Status Scheduler::Admit() {
  MutexLock lock(mutex_);
  Status room = CheckRoom();
  if (room.code() == StatusCode::kResourceExhausted) ++counts_.refused;
  return room;
}

Result<std::shared_ptr<Ticket>> Scheduler::Submit(uint64_t conversation,
                                                  Work work) {
  MutexLock lock(mutex_);
  if (Status room = CheckRoom(); !room.ok()) {
    if (room.code() == StatusCode::kResourceExhausted) ++counts_.refused;
    return room;
  }
  auto ticket = std::make_shared<Ticket>();
  std::deque<Item>& items = waiting_[conversation];
  if (items.empty() && !running_.contains(conversation)) {
    turns_.push_back(conversation);
  }
  items.push_back({.work = std::move(work), .ticket = ticket});
  if (running_idle_ != nullptr) {
    running_idle_->Cancel(CancelledError("a request came"));
  }
  changed_.NotifyOne();
  return ticket;
}

void Scheduler::SetIdle(uint64_t conversation, IdleWork work) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  std::erase_if(idle_,
                [&](const auto& one) { return one.first == conversation; });
  idle_.emplace_back(conversation, std::move(work));
  if (idle_.size() > options_.max_idle) idle_.pop_front();
  changed_.NotifyOne();
}

int Scheduler::RetryAfterSeconds() const {
  MutexLock lock(mutex_);
  const double seconds =
      std::ceil(mean_seconds_ * static_cast<double>(WaitingCount() + 1) /
                static_cast<double>(threads_.size()));
  return static_cast<int>(
      std::clamp(seconds, 1.0, static_cast<double>(kLongestRetry)));
}

SchedulerCounts Scheduler::counts() const {
  MutexLock lock(mutex_);
  SchedulerCounts counts = counts_;
  counts.waiting = WaitingCount();
  counts.running = running_.size();
  return counts;
}

void Scheduler::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    const Status why = UnavailableError("the server is shutting down");
    idle_.clear();
    if (running_idle_ != nullptr) running_idle_->Cancel(why);
    for (const auto& [conversation, ticket] : running_) ticket->Cancel(why);
    for (auto& [conversation, items] : waiting_) {
      for (Item& item : items) item.ticket->Cancel(why);
    }
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool Scheduler::HasWork() const {
  return !turns_.empty() || (!idle_.empty() && running_.empty() &&
                             running_idle_ == nullptr && !stopping_);
}

void Scheduler::RunRequest(uint64_t conversation, Item item) {
  const auto start = Clock::Monotonic().Now();
  item.work(*item.ticket);
  // Captured things go here and not under the lock.
  item.work = nullptr;
  const double seconds = Milliseconds(Clock::Monotonic().Now() - start) / 1000;
  MutexLock lock(mutex_);
  running_.erase(conversation);
  const auto queue = waiting_.find(conversation);
  if (queue->second.empty()) {
    waiting_.erase(queue);
  } else {
    turns_.push_back(conversation);
  }
  changed_.NotifyAll();
  if (item.ticket->is_cancelled()) {
    ++counts_.cancelled;
  } else {
    ++counts_.finished;
    mean_seconds_ += kLatestWeight * (seconds - mean_seconds_);
  }
}

void Scheduler::RunIdle(uint64_t conversation, IdleWork work, Ticket& ticket) {
  const bool finished = work(ticket);
  MutexLock lock(mutex_);
  running_idle_ = nullptr;
  ++counts_.idle_runs;
  const bool replaced =
      std::any_of(idle_.begin(), idle_.end(),
                  [&](const auto& one) { return one.first == conversation; });
  if (!finished && !replaced && !stopping_) {
    idle_.emplace_back(conversation, std::move(work));
  }
  changed_.NotifyAll();
}

void Scheduler::Run() {
  while (true) {
    MutexLock lock(mutex_);
    while (!HasWork() && !stopping_) changed_.Wait(lock);
    if (!turns_.empty()) {
      const uint64_t conversation = turns_.front();
      turns_.pop_front();
      const auto queue = waiting_.find(conversation);
      Item item = std::move(queue->second.front());
      queue->second.pop_front();
      running_.emplace(conversation, item.ticket);
      lock.Unlock();
      RunRequest(conversation, std::move(item));
    } else if (stopping_) {
      return;
    } else {
      auto [conversation, work] = std::move(idle_.front());
      idle_.pop_front();
      const auto ticket = std::make_shared<Ticket>();
      running_idle_ = ticket;
      lock.Unlock();
      RunIdle(conversation, std::move(work), *ticket);
    }
  }
}

}  // namespace nexus::serve
