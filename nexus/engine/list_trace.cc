#include "nexus/engine/list_trace.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "nexus/base/hash.h"
#include "nexus/engine/list_order.h"

namespace nexus::engine {
namespace {

// xorshift64*, Vigna 2016: the same trace on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}

  size_t Below(size_t bound) { return Next() % bound; }
  double Unit() { return static_cast<double>(Next()) / 2147483648.0; }

 private:
  uint64_t Next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1DULL >> 33;
  }
  uint64_t state_;
};

template <typename T>
void InsertAt(std::vector<T>* list, size_t place, T value) {
  list->insert(list->begin() + static_cast<std::ptrdiff_t>(place), value);
}

}  // namespace

std::vector<std::vector<size_t>> MakeListTrace(
    const ListTraceOptions& options) {
  Random random(options.seed);
  const auto count = static_cast<size_t>(std::max(options.tools, 1));
  // Which tools change often has nothing to do with their place.
  std::vector<size_t> by_change(count);
  std::iota(by_change.begin(), by_change.end(), size_t{0});
  for (size_t i = count; i > 1; --i) {
    std::swap(by_change[i - 1], by_change[random.Below(i)]);
  }
  const size_t lively = std::max<size_t>(1, count / 5);
  const auto draw = [&] {
    const bool is_lively = lively == count || random.Unit() < options.skew;
    return is_lively ? by_change[random.Below(lively)]
                     : by_change[lively + random.Below(count - lively)];
  };

  std::vector<size_t> list(count);
  std::iota(list.begin(), list.end(), size_t{0});
  std::vector<std::vector<size_t>> trace;
  while (trace.size() < static_cast<size_t>(options.requests)) {
    trace.push_back(list);
    const std::vector<size_t> before = list;
    while (list == before) {
      const size_t action = random.Below(3);
      const size_t tool = draw();
      const auto at = std::find(list.begin(), list.end(), tool);
      const bool is_there = at != list.end();
      if (action == 0 && is_there && 2 * (list.size() - 1) >= count) {
        list.erase(at);
      } else if (action == 1 && !is_there) {
        InsertAt(&list, random.Below(list.size() + 1), tool);
      } else if (action == 2 && is_there) {
        list.erase(at);
        InsertAt(&list, random.Below(list.size() + 1), tool);
      }
      if (count == 1) break;
    }
    if (random.Unit() < options.shuffle_rate) {
      for (size_t i = list.size(); i > 1; --i) {
        std::swap(list[i - 1], list[random.Below(i)]);
      }
    }
  }
  return trace;
}

std::string_view ListOrderName(ListOrder order) {
  switch (order) {
    case ListOrder::kCaller:
      return "caller";
    case ListOrder::kName:
      return "name";
    case ListOrder::kStableFirst:
      return "stable-first";
  }
  return "unknown";
}

std::vector<std::vector<schema::ToolSchema>> ArrangeTrace(
    std::span<const schema::ToolSchema> tools,
    std::span<const std::vector<size_t>> trace, ListOrder order) {
  std::vector<std::vector<schema::ToolSchema>> arranged;
  ListHistory history;
  for (const std::vector<size_t>& list : trace) {
    std::vector<schema::ToolSchema> given;
    for (const size_t i : list) given.push_back(tools[i]);
    if (order == ListOrder::kCaller) {
      arranged.push_back(std::move(given));
      continue;
    }
    history.Observe(given);
    std::vector<uint32_t> stability;
    if (order == ListOrder::kStableFirst)
      stability = history.StabilityOf(given);
    std::vector<schema::ToolSchema> sorted;
    for (const size_t i : CanonicalOrder(given, stability)) {
      sorted.push_back(given[i]);
    }
    arranged.push_back(std::move(sorted));
  }
  return arranged;
}

Result<ListTraceCost> CountListTrace(const PromptPlanner& planner,
                                     std::span<const schema::ToolSchema> tools,
                                     std::span<const std::vector<size_t>> trace,
                                     ListOrder order) {
  ListTraceCost cost;
  std::set<Sha256Digest> trie;
  std::vector<llm::Token> held;
  for (const std::vector<schema::ToolSchema>& list :
       ArrangeTrace(tools, trace, order)) {
    NEXUS_ASSIGN_OR_RETURN(
        const PromptPlan plan,
        planner.PlanListBlock(compile::kDefaultSystemPrompt, list));
    const std::vector<llm::Token> all = AllTokens(plan);
    cost.total_tokens += static_cast<int64_t>(all.size());
    const auto common = static_cast<size_t>(
        std::mismatch(all.begin(), all.end(), held.begin(), held.end()).first -
        all.begin());
    size_t begin = 0;
    for (const PlanPiece& piece : plan.pieces) {
      const size_t end = plan.history.size() + piece.end;
      const auto size = static_cast<int64_t>(end - begin);
      Sha256 hash;
      hash.Update(std::string_view(reinterpret_cast<const char*>(all.data()),
                                   end * sizeof(llm::Token)));
      const bool is_held = end <= common;
      if (!is_held) cost.decoded_with_session += size;
      if (trie.insert(hash.Finish()).second) {
        cost.stored_tokens += size;
        if (!is_held) cost.decoded_with_trie += size;
      }
      begin = end;
    }
    held = all;
  }
  return cost;
}

}  // namespace nexus::engine
