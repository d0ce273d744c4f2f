// StepBatch: sessions that generate at the same time, a token of each in one
// decode (continuous batching).
//
// Each session still brings its prompt into a context of its own, one session
// at a time: whoever does so, or uses anything else that belongs to the
// inference thread, has the turn. To generate, a session becomes a member: its
// cells are copied into a context that all members share, and its turn is given
// up. Members sample side by side. As soon as every member waits for its next
// token and nobody has the turn, all those tokens are decoded together.
//
// Rows of such a decode depend, by rounding, on who else is in it: this is the
// fast mode under load, and not the bit-stable one (docs/determinism.md).
#ifndef NEXUS_ENGINE_STEP_BATCH_H_
#define NEXUS_ENGINE_STEP_BATCH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/llm/context.h"

namespace nexus::engine {

struct StepBatchCounts {
  uint64_t decodes = 0;
  uint64_t tokens = 0;  // of all decodes
};

// Thread-safe. The engine must outlive it.
class StepBatch {
 public:
  // Memory: cells for `max_members` times the engine's context.
  static Result<std::unique_ptr<StepBatch>> Create(const Engine* engine,
                                                   int max_members);
  // Nobody has the turn, and there are no members.
  ~StepBatch();
  StepBatch(const StepBatch&) = delete;
  StepBatch& operator=(const StepBatch&) = delete;

  int max_members() const { return context_->options().sequences; }
  StepBatchCounts counts() const EXCLUDES(mutex_);

  // In the order of the calls, but for members that leave, who come first. A
  // batch that is ready goes between two turns, so that members wait no longer
  // than for one prompt.
  void TakeTurn() EXCLUDES(mutex_);
  void GiveTurn() EXCLUDES(mutex_);

  // With the turn, which is given up if it's ok: the caller is then the member
  // that is returned, and continues `sequence` of `from`. On failure nothing
  // has changed: kUnimplemented for models whose cells can't be copied,
  // kResourceExhausted when all places are taken.
  Result<int> Join(const llm::Context& from, llm::SequenceId sequence)
      EXCLUDES(mutex_);
  // Decodes a member's next token together with the others'. The row of logits
  // is valid until the member's next call. Another's cancellation or a member
  // that leaves doesn't fail it.
  Result<std::span<const float>> Step(int member, llm::Token token)
      EXCLUDES(mutex_);
  // Returns with the turn.
  void Leave(int member) EXCLUDES(mutex_);

 private:
  struct Member {
    bool is_taken = false;
    bool waits = false;  // for `token`
    llm::Token token = 0;
    Status status;  // of its last decode
    std::span<const float> row;
  };

  StepBatch(std::unique_ptr<llm::Context> context, int max_members);
  void Run() EXCLUDES(mutex_);
  bool IsReady() const REQUIRES(mutex_);

  // Of whoever has the turn, or of the decode.
  const std::unique_ptr<llm::Context> context_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Member> members_ GUARDED_BY(mutex_);
  bool turn_taken_ GUARDED_BY(mutex_) = false;
  std::deque<uint64_t> queue_ GUARDED_BY(mutex_);  // who waits for the turn
  uint64_t last_in_queue_ GUARDED_BY(mutex_) = 0;
  int leaving_ GUARDED_BY(mutex_) = 0;  // and those who do so to leave
  bool decodes_ GUARDED_BY(mutex_) = false;
  // Since the turn was given up last.
  bool has_decoded_ GUARDED_BY(mutex_) = true;
  bool stopping_ GUARDED_BY(mutex_) = false;
  StepBatchCounts counts_ GUARDED_BY(mutex_);
  std::thread thread_;
};

// Has the turn while it lives; nothing without a batch, where there is but one
// thread. What joins meanwhile must have left at the end.
class Turn {
 public:
  explicit Turn(StepBatch* batch) : batch_(batch) {
    if (batch_ != nullptr) batch_->TakeTurn();
  }
  ~Turn() {
    if (batch_ != nullptr) batch_->GiveTurn();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  StepBatch* batch_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_STEP_BATCH_H_
