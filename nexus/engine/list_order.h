// The canonical order of a tool list: the most stable tools first.
//
// Cells of a list are exact only behind the very same tokens, so a tool that
// comes or goes costs a new decode of everything behind it. Callers list tools
// in orders of their own (servers in the order of connecting, hash maps). One
// order for all of them makes equal sets equal lists, and with the tools that
// rarely change in front, a change reaches little.
#ifndef NEXUS_ENGINE_LIST_ORDER_H_
#define NEXUS_ENGINE_LIST_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

// Indices of `tools`: by falling `stability` (one a tool; empty: all alike),
// then by server, name and text. A pure function of the set: the order that the
// tools come in changes nothing.
std::vector<size_t> CanonicalOrder(std::span<const schema::ToolSchema> tools,
                                   std::span<const uint32_t> stability = {});

// How often each tool has come or gone. Thread-compatible.
//
// A tool that was there from the first request on and never left is the most
// stable; each coming and each going moves it towards the end. So a change
// moves the tool that changed and no other.
class ListHistory {
 public:
  static constexpr uint32_t kMostStable = 32;

  // A list was asked for.
  void Observe(std::span<const schema::ToolSchema> tools);
  // kMostStable less the number of bits of the count: coarse on purpose, so
  // that a tool keeps its place among those that change as often. A tool never
  // seen counts as having come just now.
  uint32_t Stability(const schema::ToolSchema& tool) const;
  // One a tool, for CanonicalOrder.
  std::vector<uint32_t> StabilityOf(
      std::span<const schema::ToolSchema> tools) const;

 private:
  struct Seen {
    uint32_t changes = 0;
    uint64_t last_request = 0;
  };
  uint64_t requests_ = 0;
  std::map<std::string, Seen> seen_;  // by server and canonical text
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_LIST_ORDER_H_
