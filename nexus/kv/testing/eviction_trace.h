// EvictionTrace: a synthetic day of a store that is too small, played against a
// way to choose what goes. Shared by a test and eviction_bench.cc.
//
// Tools are used as files and words are: the n-th most popular one 1/n as often
// as the first. What is popular moves on (a tool changes places with another
// one), and now and then a whole server's list is gone through once. Tokens a
// tool: log-normal, median 200 and narrow, as the
// tools of real MCP servers in the default model's frame (docs/store_cost.md).
#ifndef NEXUS_KV_TESTING_EVICTION_TRACE_H_
#define NEXUS_KV_TESTING_EVICTION_TRACE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nexus/kv/block_value.h"

namespace nexus::kv::testing {

struct TraceOptions {
  int tools = 1000;
  int uses = 40000;
  int move_every = 20;    // uses; 0: what is popular stays so
  int sweep_every = 500;  // uses; 0: no list is ever gone through
  int sweep_tools = 50;
  // Every other block is stored in 8 bits: about half the bytes a token.
  bool mixed_storage = false;
  double limit_share = 0.1;  // of the bytes of all tools
  uint32_t seed = 1;
};

enum class EvictionPolicy { kLeastRecentlyUsed, kLeastValue };

// Tokens found in the store as a share of all that were asked for.
inline double TokenHitRate(const TraceOptions& options, EvictionPolicy policy) {
  struct Tool {
    int64_t tokens;
    uint64_t bytes;
  };
  struct Resident {
    double heat;
    double score;
  };
  std::mt19937 random(options.seed);
  // Not std::lognormal_distribution: it differs from library to library.
  const auto uniform = [&random] {
    return (static_cast<double>(random()) + 0.5) / 4294967296.0;
  };
  std::vector<Tool> tools;
  std::vector<double> weights;  // summed
  double all_bytes = 0;
  double weight = 0;
  for (int i = 0; i < options.tools; ++i) {
    const double normal = std::sqrt(-2 * std::log(uniform())) *
                          std::cos(2 * 3.14159265358979 * uniform());
    const auto tokens = static_cast<int64_t>(200 * std::exp(0.25 * normal)) + 1;
    const int a_token = options.mixed_storage && i % 2 == 1 ? 6632 : 12392;
    tools.push_back({tokens, static_cast<uint64_t>(tokens * a_token + 2496)});
    all_bytes += static_cast<double>(tools.back().bytes);
    weights.push_back(weight += 1.0 / (i + 1));
  }
  const auto limit = static_cast<uint64_t>(options.limit_share * all_bytes);
  std::vector<size_t> at_rank(tools.size());
  for (size_t i = 0; i < at_rank.size(); ++i) at_rank[i] = i;
  const auto any = [&] {
    return static_cast<size_t>(uniform() * static_cast<double>(tools.size()));
  };
  for (size_t i = at_rank.size(); i > 1; --i) {
    std::swap(at_rank[i - 1], at_rank[any() % i]);
  }

  std::unordered_map<size_t, Resident> residents;
  std::set<std::pair<double, size_t>> by_score;
  uint64_t used_bytes = 0;
  double hit_tokens = 0;
  double all_tokens = 0;
  int64_t when = 0;
  const auto use = [&](size_t id) {
    ++when;
    const Tool& tool = tools[id];
    all_tokens += static_cast<double>(tool.tokens);
    const auto found = residents.find(id);
    const bool is_hit = found != residents.end();
    double heat = HeatOf(1, when);
    if (is_hit) {
      hit_tokens += static_cast<double>(tool.tokens);
      heat = HeatAfterUse(found->second.heat, when);
      by_score.erase({found->second.score, id});
    } else {
      used_bytes += tool.bytes;
    }
    const double score = policy == EvictionPolicy::kLeastValue
                             ? LogBlockValue(heat, tool.tokens, tool.bytes)
                             : static_cast<double>(when);
    residents[id] = {heat, score};
    // What was just used stays, as in the store.
    while (used_bytes > limit && !by_score.empty()) {
      const size_t victim = by_score.begin()->second;
      by_score.erase(by_score.begin());
      residents.erase(victim);
      used_bytes -= tools[victim].bytes;
    }
    by_score.insert({score, id});
  };
  for (int i = 1; i <= options.uses; ++i) {
    if (options.move_every > 0 && i % options.move_every == 0) {
      std::swap(at_rank[any()], at_rank[any()]);
    }
    if (options.sweep_every > 0 && i % options.sweep_every == 0) {
      const size_t first = any();
      for (int j = 0; j < options.sweep_tools; ++j) {
        use((first + static_cast<size_t>(j)) % tools.size());
      }
    }
    const auto rank = static_cast<size_t>(
        std::lower_bound(weights.begin(), weights.end(), uniform() * weight) -
        weights.begin());
    use(at_rank[std::min(rank, at_rank.size() - 1)]);
  }
  return hit_tokens / all_tokens;
}

}  // namespace nexus::kv::testing

#endif  // NEXUS_KV_TESTING_EVICTION_TRACE_H_
