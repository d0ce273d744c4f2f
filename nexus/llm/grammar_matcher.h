// GrammarMatcher: a pushdown automaton over a GbnfProgram, determinised as it
// goes.
//
// A state is the set of places in the grammar that the text so far can be at;
// each place has a stack of rules to return to. Stacks are shared lists, kept
// unique, so that equal sets get equal numbers and a transition is computed
// once: inside a JSON string every further character is one table look-up,
// which is what makes it cheap to test the whole vocabulary.
//
// Every state knows the fewest bytes that end the text from there. Internal to
// nexus/llm.
#ifndef NEXUS_LLM_GRAMMAR_MATCHER_H_
#define NEXUS_LLM_GRAMMAR_MATCHER_H_

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nexus/llm/gbnf.h"

namespace nexus::llm {

// Thread-compatible.
class GrammarMatcher {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;

  explicit GrammarMatcher(GbnfProgram program);

  State start() const { return start_; }
  // The state after one more byte; kDead when the grammar doesn't allow it.
  State Step(State state, uint8_t byte) {
    const State next = states_[static_cast<size_t>(state)].next[byte];
    return next != kUnknown ? next : Compute(state, byte);
  }
  // True when the text may end here.
  bool Accepts(State state) const {
    return states_[static_cast<size_t>(state)].bytes_to_end == 0;
  }
  // Fewest bytes to the end of the text.
  uint32_t BytesToEnd(State state) const {
    return states_[static_cast<size_t>(state)].bytes_to_end;
  }

  size_t state_count() const { return states_.size(); }
  // Forgets every state but `keep` (and the start) and returns its new number.
  State Compact(State keep);

 private:
  static constexpr State kUnknown = -2;

  // Where a rule returns to: position in the program, and the frame below.
  struct Frame {
    uint32_t position = 0;
    uint32_t parent = 0;
    uint32_t bytes_to_end = 0;
  };
  // A place: position << 32 | frame. kAccept stands for the end of the text.
  using Place = uint64_t;
  static constexpr Place kAccept = ~uint64_t{0};

  struct StateData {
    std::vector<Place> places;  // sorted
    uint32_t bytes_to_end = 0;
    std::array<State, 256> next;
  };
  struct PlacesHash {
    size_t operator()(const std::vector<Place>& places) const;
  };

  State Compute(State state, uint8_t byte);
  // Follows rules and returns from `position` until bytes are wanted.
  void Expand(uint32_t position, uint32_t frame, std::vector<Place>* places);
  uint32_t Intern(uint32_t position, uint32_t parent);
  State InternState(std::vector<Place> places);
  void Reset();

  GbnfProgram program_;
  State start_ = 0;
  std::vector<Frame> frames_;  // [0] is the bottom
  std::unordered_map<uint64_t, uint32_t> frame_ids_;
  std::vector<StateData> states_;
  std::unordered_map<std::vector<Place>, State, PlacesHash> state_ids_;
  std::vector<Place> pending_;  // of Expand
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_GRAMMAR_MATCHER_H_
