#include "nexus/remote/pool_metrics.h"

#include <string_view>

namespace nexus::remote {
namespace {

// The URL is an argument of the program: a quote in it mustn't end the label.
std::string Escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string PoolMetricsText(std::span<const ReplicaCounts> replicas,
                            uint64_t retries) {
  std::string text;
  const auto family = [&](std::string_view name, std::string_view type,
                          std::string_view help, auto value) {
    const std::string full = "nexus_backend_" + std::string(name);
    text += "# HELP " + full + " " + std::string(help) + "\n# TYPE " + full +
            " " + std::string(type) + "\n";
    for (const ReplicaCounts& replica : replicas) {
      text += full + "{backend=\"" + Escaped(replica.name) + "\"} " +
              std::to_string(value(replica)) + "\n";
    }
  };
  using Counts = ReplicaCounts;
  family("up", "gauge", "Well by the last probe, and its circuit not open.",
         [](const Counts& r) {
           return r.is_well && r.circuit != CircuitState::kOpen ? 1 : 0;
         });
  family("circuit", "gauge", "0 closed, 1 half-open, 2 open.",
         [](const Counts& r) {
           return r.circuit == CircuitState::kClosed     ? 0
                  : r.circuit == CircuitState::kHalfOpen ? 1
                                                         : 2;
         });
  family("in_flight", "gauge", "Attempts at work.",
         [](const Counts& r) { return r.in_flight; });
  family("requests_total", "counter", "Attempts.",
         [](const Counts& r) { return r.requests; });
  family("failures_total", "counter", "Attempts that failed by its fault.",
         [](const Counts& r) { return r.failures; });
  family("throttled_total", "counter", "Attempts that it answered with 429.",
         [](const Counts& r) { return r.throttled; });
  family("first_choice_total", "counter",
         "Attempts of requests whose beginning prefers it.",
         [](const Counts& r) { return r.first_choice; });
  family("probe_failures_total", "counter", "Failed health checks.",
         [](const Counts& r) { return r.probe_failures; });
  constexpr char kRetries[] = "nexus_backend_retries_total";
  text += "# HELP " + std::string(kRetries) +
          " Attempts beyond the first of a request.\n# TYPE " + kRetries +
          " counter\n" + kRetries + " " + std::to_string(retries) + "\n";
  return text;
}

}  // namespace nexus::remote
