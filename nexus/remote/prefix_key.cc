#include "nexus/remote/prefix_key.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nexus/base/hash.h"

namespace nexus::remote {

uint64_t PrefixKey(const Json& body) {
  std::string text;
  if (!body.is_object()) return 0;
  for (const char* field : {"model", "tools"}) {
    const auto found = body.find(field);
    if (found != body.end()) text += DumpJson(*found);
    text += '\0';
  }
  const auto messages = body.find("messages");
  if (messages != body.end() && messages->is_array()) {
    for (const Json& message : *messages) {
      text += DumpJson(message) + '\0';
      if (message.is_object() && message.value("role", Json()) == "user") break;
    }
  }
  return Xxh3(text.data(), text.size());
}

std::vector<size_t> RankReplicas(uint64_t key,
                                 std::span<const std::string> names) {
  std::vector<uint64_t> score;
  for (const std::string& name : names) {
    std::string text(name);
    text.append(reinterpret_cast<const char*>(&key), sizeof key);
    score.push_back(Xxh3(text.data(), text.size()));
  }
  std::vector<size_t> order(names.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return score[a] > score[b]; });
  return order;
}

size_t LoadBound(size_t in_flight, size_t replicas, double factor) {
  if (replicas == 0) return 0;
  return static_cast<size_t>(
      std::ceil(factor * static_cast<double>(in_flight + 1) /
                static_cast<double>(replicas)));
}

}  // namespace nexus::remote
