#include "nexus/engine/list_order.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <tuple>

namespace nexus::engine {
namespace {

std::string KeyOf(const schema::ToolSchema& tool) {
  return tool.server + '\n' + schema::CanonicalText(tool);
}

}  // namespace

std::vector<size_t> CanonicalOrder(std::span<const schema::ToolSchema> tools,
                                   std::span<const uint32_t> stability) {
  std::vector<size_t> order(tools.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto stability_of = [&](size_t i) {
    return i < stability.size() ? stability[i] : 0U;
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (stability_of(a) != stability_of(b)) {
      return stability_of(a) > stability_of(b);
    }
    const auto names = [](const schema::ToolSchema& tool) {
      return std::tie(tool.server, tool.name);
    };
    if (names(tools[a]) != names(tools[b])) {
      return names(tools[a]) < names(tools[b]);
    }
    // Two tools of one name differ in what the model reads, or not at all.
    return schema::ModelText(tools[a]) < schema::ModelText(tools[b]);
  });
  return order;
}

void ListHistory::Observe(std::span<const schema::ToolSchema> tools) {
  ++requests_;
  for (const schema::ToolSchema& tool : tools) {
    const auto [entry, is_new] = seen_.try_emplace(KeyOf(tool));
    Seen& seen = entry->second;
    const bool came_later = is_new && requests_ > 1;
    const bool came_back = !is_new && seen.last_request + 1 < requests_;
    if (came_later) seen.changes = 1;
    // It left, and came.
    if (came_back) {
      seen.changes =
          std::min(seen.changes, std::numeric_limits<uint32_t>::max() - 2) + 2;
    }
    seen.last_request = requests_;
  }
}

uint32_t ListHistory::Stability(const schema::ToolSchema& tool) const {
  const auto found = seen_.find(KeyOf(tool));
  const uint32_t never_seen = requests_ > 0 ? 1 : 0;
  const uint32_t changes =
      found == seen_.end() ? never_seen : found->second.changes;
  return kMostStable - static_cast<uint32_t>(std::bit_width(changes));
}

std::vector<uint32_t> ListHistory::StabilityOf(
    std::span<const schema::ToolSchema> tools) const {
  std::vector<uint32_t> all;
  for (const schema::ToolSchema& tool : tools) all.push_back(Stability(tool));
  return all;
}

}  // namespace nexus::engine
