// Lists of tools that change from request to request, and what they cost: how
// many of their tokens are decoded, by the order that the tools stand in and by
// what is kept.
#ifndef NEXUS_ENGINE_LIST_TRACE_H_
#define NEXUS_ENGINE_LIST_TRACE_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct ListTraceOptions {
  int tools = 20;
  int requests = 200;
  // The most changing fifth of the tools makes this share of the comings and
  // goings.
  double skew = 0.8;
  // Callers that list their tools in a new order (servers answer in any order,
  // hash maps have none).
  double shuffle_rate = 0.1;
  uint64_t seed = 1;
};

// [request] -> indices of tools in the caller's order. The first list has all
// tools; each further one differs from the one before: a tool goes, comes back
// (at any place), or moves, a third each; at least half of the tools stay.
std::vector<std::vector<size_t>> MakeListTrace(const ListTraceOptions& options);

enum class ListOrder {
  kCaller,
  kName,         // canonical, all tools alike
  kStableFirst,  // canonical, with a ListHistory of the requests before
};
std::string_view ListOrderName(ListOrder order);

// The requests' lists as they are planned, in this order of their tools.
std::vector<std::vector<schema::ToolSchema>> ArrangeTrace(
    std::span<const schema::ToolSchema> tools,
    std::span<const std::vector<size_t>> trace, ListOrder order);

struct ListTraceCost {
  int64_t total_tokens = 0;  // of all lists, frame included
  // Decoded by one session that keeps its own cells, and with the store's trie.
  int64_t decoded_with_session = 0;
  int64_t decoded_with_trie = 0;
  int64_t stored_tokens = 0;  // cells in the trie at the end
};

// Counts, decodes nothing; a session that runs the trace decodes exactly as
// many (list_trace_test.cc).
Result<ListTraceCost> CountListTrace(const PromptPlanner& planner,
                                     std::span<const schema::ToolSchema> tools,
                                     std::span<const std::vector<size_t>> trace,
                                     ListOrder order);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_LIST_TRACE_H_
