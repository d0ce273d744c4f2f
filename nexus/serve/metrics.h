// Metrics: what /metrics says, in the text format that Prometheus reads.
#ifndef NEXUS_SERVE_METRICS_H_
#define NEXUS_SERVE_METRICS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "nexus/base/mutex.h"
#include "nexus/serve/chat_service.h"

namespace nexus::serve {

// Counts of values up to each bound, and their sum. Thread-compatible.
class Histogram {
 public:
  void Observe(double seconds);
  // As samples of the family `name`.
  std::string Text(std::string_view name) const;

 private:
  static constexpr std::array<double, 12> kBounds = {
      0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
  std::array<uint64_t, kBounds.size() + 1> counts_{};
  double sum_ = 0;
};

struct Gauges {
  SchedulerCounts scheduler;
  SessionCacheCounts sessions;
  engine::StepBatchCounts batch;
  size_t connections = 0;
};

// Thread-safe.
class Metrics {
 public:
  // `endpoint` must come from a fixed set: each makes a time series.
  void CountRequest(std::string_view endpoint, int status) EXCLUDES(mutex_);
  void ObserveChat(const ChatOutcome& outcome) EXCLUDES(mutex_);
  void ObserveAudit(const AuditOutcome& outcome) EXCLUDES(mutex_);

  std::string Text(const Gauges& gauges) const EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_ GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> tiers_ GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> prompt_tokens_ GUARDED_BY(mutex_);
  uint64_t completion_tokens_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, uint64_t> audits_ GUARDED_BY(mutex_);
  uint64_t audited_tokens_ GUARDED_BY(mutex_) = 0;
  double audited_kl_ GUARDED_BY(mutex_) = 0;  // summed over them
  Histogram ttft_ GUARDED_BY(mutex_);
  Histogram total_ GUARDED_BY(mutex_);
  Histogram queue_ GUARDED_BY(mutex_);
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_METRICS_H_
