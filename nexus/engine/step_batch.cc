#include "nexus/engine/step_batch.h"

#include <algorithm>
#include <string>
#include <utility>

#include "nexus/base/check.h"
#include "nexus/llm/sequence_copy.h"

namespace nexus::engine {

Result<std::unique_ptr<StepBatch>> StepBatch::Create(const Engine* engine,
                                                     int max_members) {
  NEXUS_ASSIGN_OR_RETURN(auto context, engine->NewStepContext(max_members));
  return std::unique_ptr<StepBatch>(
      new StepBatch(std::move(context), max_members));
}

StepBatch::StepBatch(std::unique_ptr<llm::Context> context, int max_members)
    : context_(std::move(context)),
      members_(static_cast<size_t>(max_members)),
      thread_([this] { Run(); }) {}

StepBatch::~StepBatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

StepBatchCounts StepBatch::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

bool StepBatch::IsReady() const {
  bool any = false;
  for (const Member& member : members_) {
    if (member.is_taken && !member.waits) return false;
    any = any || member.waits;
  }
  return any;
}

void StepBatch::TakeTurn() {
  MutexLock lock(mutex_);
  const uint64_t mine = ++last_in_queue_;
  queue_.push_back(mine);
  while (turn_taken_ || decodes_ || leaving_ > 0 || queue_.front() != mine ||
         (IsReady() && !has_decoded_)) {
    changed_.Wait(lock);
  }
  queue_.pop_front();
  turn_taken_ = true;
}

void StepBatch::GiveTurn() {
  MutexLock lock(mutex_);
  NEXUS_CHECK(turn_taken_);
  turn_taken_ = false;
  has_decoded_ = false;
  changed_.NotifyAll();
}

Result<int> StepBatch::Join(const llm::Context& from,
                            llm::SequenceId sequence) {
  size_t place = 0;
  {
    MutexLock lock(mutex_);
    NEXUS_CHECK(turn_taken_);
    const auto free =
        std::find_if(members_.begin(), members_.end(),
                     [](const Member& member) { return !member.is_taken; });
    if (free == members_.end()) {
      return ResourceExhaustedError(std::to_string(members_.size()) +
                                    " sessions generate already");
    }
    place = static_cast<size_t>(free - members_.begin());
  }
  // The turn keeps all others from the context and from the free places.
  NEXUS_RETURN_IF_ERROR(llm::CopySequence(from, sequence, context_.get(),
                                          static_cast<int>(place)));
  {
    MutexLock lock(mutex_);
    members_[place] = {};
    members_[place].is_taken = true;
  }
  GiveTurn();
  return static_cast<int>(place);
}

Result<std::span<const float>> StepBatch::Step(int member, llm::Token token) {
  MutexLock lock(mutex_);
  Member& mine = members_[static_cast<size_t>(member)];
  NEXUS_CHECK(mine.is_taken && !mine.waits);
  mine.token = token;
  mine.waits = true;
  changed_.NotifyAll();
  while (mine.waits) changed_.Wait(lock);
  if (!mine.status.ok()) return mine.status;
  return mine.row;
}

void StepBatch::Leave(int member) {
  MutexLock lock(mutex_);
  members_[static_cast<size_t>(member)] = {};
  ++leaving_;
  while (turn_taken_ || decodes_) changed_.Wait(lock);
  --leaving_;
  turn_taken_ = true;
}

void StepBatch::Run() {
  std::vector<llm::NextToken> next;
  while (true) {
    MutexLock lock(mutex_);
    while (!stopping_ && (turn_taken_ || leaving_ > 0 || !IsReady() ||
                          (has_decoded_ && !queue_.empty()))) {
      changed_.Wait(lock);
    }
    if (stopping_) return;
    next.clear();
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!members_[i].waits) continue;
      const auto sequence = static_cast<llm::SequenceId>(i);
      next.push_back({.sequence = sequence,
                      .position = context_->PositionEnd(sequence),
                      .token = members_[i].token});
    }
    decodes_ = true;
    lock.Unlock();
    const Status status = context_->DecodeNext(next);
    lock.Lock();
    decodes_ = false;
    has_decoded_ = true;
    ++counts_.decodes;
    counts_.tokens += next.size();
    for (size_t i = 0; i < next.size(); ++i) {
      Member& member = members_[static_cast<size_t>(next[i].sequence)];
      member.status = status;
      if (status.ok()) member.row = context_->LogitsRow(static_cast<int>(i));
      member.waits = false;
    }
    changed_.NotifyAll();
  }
}

}  // namespace nexus::engine
