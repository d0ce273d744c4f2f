#include "nexus/llm/grammar_matcher.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "nexus/base/hash.h"

namespace nexus::llm {
namespace {

using Op = GbnfElement::Op;

// An ambiguous grammar can be at exponentially many places at once. Following
// only the first ones matches less text, never other text.
constexpr size_t kMaxPlaces = 2048;
// A state is about 1 KB. Beyond this, new ones count as dead until Compact.
constexpr size_t kMaxStates = 1 << 16;

constexpr uint64_t MakePlace(uint32_t position, uint32_t frame) {
  return (uint64_t{position} << 32) | frame;
}
constexpr uint32_t PositionOf(uint64_t place) {
  return static_cast<uint32_t>(place >> 32);
}
constexpr uint32_t FrameOf(uint64_t place) {
  return static_cast<uint32_t>(place);
}

}  // namespace

size_t GrammarMatcher::PlacesHash::operator()(
    const std::vector<Place>& places) const {
  return Xxh3(places.data(), places.size() * sizeof(Place));
}

GrammarMatcher::GrammarMatcher(GbnfProgram program)
    : program_(std::move(program)) {
  Reset();
}

void GrammarMatcher::Reset() {
  frames_.assign(1, Frame{});
  frame_ids_.clear();
  states_.clear();
  state_ids_.clear();
  std::vector<Place> places;
  for (uint32_t alternative : program_.rules[program_.root]) {
    if (program_.bytes_to_end[alternative] < GbnfProgram::kNeverEnds) {
      Expand(alternative, 0, &places);
    }
  }
  start_ = InternState(std::move(places));
}

uint32_t GrammarMatcher::Intern(uint32_t position, uint32_t parent) {
  const auto [it, added] = frame_ids_.try_emplace(
      MakePlace(position, parent), static_cast<uint32_t>(frames_.size()));
  if (added) {
    frames_.push_back({position, parent,
                       std::min(program_.bytes_to_end[position] +
                                    frames_[parent].bytes_to_end,
                                GbnfProgram::kNeverEnds)});
  }
  return it->second;
}

void GrammarMatcher::Expand(uint32_t position, uint32_t frame,
                            std::vector<Place>* places) {
  // Depth first over what needs no byte. Rules aren't left-recursive, so this
  // ends; `seen` keeps ambiguous rules from being expanded more than once.
  std::unordered_set<Place> seen;
  pending_.assign(1, MakePlace(position, frame));
  while (!pending_.empty() && places->size() < kMaxPlaces) {
    const Place place = pending_.back();
    pending_.pop_back();
    const uint32_t at = PositionOf(place);
    const uint32_t below = FrameOf(place);
    const GbnfElement& element = program_.elements[at];
    switch (element.op) {
      case Op::kBytes:
        places->push_back(place);
        break;
      case Op::kEnd:
        if (below == 0) {
          places->push_back(kAccept);
        } else {
          pending_.push_back(
              MakePlace(frames_[below].position, frames_[below].parent));
        }
        break;
      case Op::kRule: {
        if (!seen.insert(place).second) break;
        // A rule at the end of its alternative returns to the frame below, so
        // that a repetition doesn't grow the stack.
        const bool tail = program_.elements[at + 1].op == Op::kEnd;
        const uint32_t back = tail ? below : Intern(at + 1, below);
        for (uint32_t alternative : program_.rules[element.arg]) {
          if (program_.bytes_to_end[alternative] < GbnfProgram::kNeverEnds) {
            pending_.push_back(MakePlace(alternative, back));
          }
        }
        break;
      }
    }
  }
}

GrammarMatcher::State GrammarMatcher::InternState(std::vector<Place> places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (places.empty()) return kDead;
  if (const auto it = state_ids_.find(places); it != state_ids_.end()) {
    return it->second;
  }
  if (states_.size() >= kMaxStates) return kDead;
  StateData data;
  data.bytes_to_end = GbnfProgram::kNeverEnds;
  for (Place place : places) {
    const uint32_t rest = place == kAccept
                              ? 0
                              : program_.bytes_to_end[PositionOf(place)] +
                                    frames_[FrameOf(place)].bytes_to_end;
    data.bytes_to_end = std::min(data.bytes_to_end, rest);
  }
  // No way to the end: not a state to be in.
  if (data.bytes_to_end >= GbnfProgram::kNeverEnds) return kDead;
  data.next.fill(kUnknown);
  data.places = places;
  const auto id = static_cast<State>(states_.size());
  states_.push_back(std::move(data));
  state_ids_.emplace(std::move(places), id);
  return id;
}

GrammarMatcher::State GrammarMatcher::Compute(State state, uint8_t byte) {
  std::vector<Place> places;
  // By index: Expand may not add states, but InternState below does.
  for (Place place : states_[static_cast<size_t>(state)].places) {
    if (place == kAccept) continue;
    const uint32_t position = PositionOf(place);
    if (program_.byte_sets[program_.elements[position].arg][byte]) {
      Expand(position + 1, FrameOf(place), &places);
    }
  }
  const State next = InternState(std::move(places));
  // A state that didn't fit the cache may fit after Compact, which drops
  // `next`.
  states_[static_cast<size_t>(state)].next[byte] = next;
  return next;
}

GrammarMatcher::State GrammarMatcher::Compact(State keep) {
  const std::vector<Frame> old_frames = std::move(frames_);
  const std::vector<Place> old_places =
      std::move(states_[static_cast<size_t>(keep)].places);
  Reset();
  // Frames are copied from the bottom of each stack upwards.
  std::unordered_map<uint32_t, uint32_t> moved = {{0, 0}};
  std::vector<Place> places;
  for (Place place : old_places) {
    if (place == kAccept) {
      places.push_back(kAccept);
      continue;
    }
    std::vector<uint32_t> chain;
    uint32_t frame = FrameOf(place);
    while (!moved.contains(frame)) {
      chain.push_back(frame);
      frame = old_frames[frame].parent;
    }
    uint32_t parent = moved[frame];
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      parent = Intern(old_frames[*it].position, parent);
      moved[*it] = parent;
    }
    places.push_back(MakePlace(PositionOf(place), parent));
  }
  return InternState(std::move(places));
}

}  // namespace nexus::llm
