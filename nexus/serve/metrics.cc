#include "nexus/serve/metrics.h"

#include "nexus/base/json.h"
#include "nexus/engine/tier.h"

namespace nexus::serve {
namespace {

std::string NumberText(double value) { return DumpJson(Json(value)); }

std::string Head(std::string_view name, std::string_view type,
                 std::string_view help) {
  const std::string family(name);
  return "# HELP " + family + " " + std::string(help) + "\n# TYPE " + family +
         " " + std::string(type) + "\n";
}

std::string Sample(std::string_view name, std::string_view labels,
                   uint64_t value) {
  std::string text(name);
  if (!labels.empty()) text += "{" + std::string(labels) + "}";
  return text + " " + std::to_string(value) + "\n";
}

std::string Label(std::string_view key, std::string_view value) {
  return std::string(key) + "=\"" + std::string(value) + "\"";
}

}  // namespace

void Histogram::Observe(double seconds) {
  size_t bucket = 0;
  while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
  ++counts_[bucket];
  sum_ += seconds;
}

std::string Histogram::Text(std::string_view name) const {
  const std::string family(name);
  std::string text;
  uint64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    const std::string bound =
        i < kBounds.size() ? NumberText(kBounds[i]) : "+Inf";
    text += Sample(family + "_bucket", Label("le", bound), total);
  }
  return text + family + "_sum " + NumberText(sum_) + "\n" +
         Sample(family + "_count", "", total);
}

void Metrics::CountRequest(std::string_view endpoint, int status) {
  MutexLock lock(mutex_);
  ++requests_[{std::string(endpoint), status}];
}

void Metrics::ObserveChat(const ChatOutcome& outcome) {
  MutexLock lock(mutex_);
  const engine::TierReport& tier = outcome.tier;
  ++tiers_[outcome.is_call ? std::string(engine::TierName(tier.tier))
                           : std::string("answer")];
  const auto add = [&](const char* how, int count) {
    prompt_tokens_[how] += static_cast<uint64_t>(count);
  };
  add("reused", tier.reused_tokens);
  add("restored", tier.restored_tokens);
  add("spliced", tier.spliced_tokens);
  add("repaired", tier.recomputed_tokens);
  add("prefilled", tier.prefilled_tokens);
  completion_tokens_ += static_cast<uint64_t>(outcome.usage.completion_tokens);
  ttft_.Observe(outcome.ttft_ms / 1000);
  total_.Observe(outcome.total_ms / 1000);
  queue_.Observe(outcome.queue_ms / 1000);
}

void Metrics::ObserveAudit(const AuditOutcome& outcome) {
  MutexLock lock(mutex_);
  if (!outcome.report.ok()) {
    ++audits_["failed"];
    return;
  }
  const engine::AuditReport& report = *outcome.report;
  ++audits_[report.broke_budget ? "demoted" : "kept"];
  audited_tokens_ += static_cast<uint64_t>(report.positions);
  audited_kl_ += report.kl_mean * report.positions;
}

std::string Metrics::Text(const Gauges& gauges) const {
  MutexLock lock(mutex_);
  std::string text = Head("nexus_http_requests_total", "counter",
                          "Requests answered, by endpoint and HTTP status.");
  for (const auto& [key, count] : requests_) {
    text += Sample("nexus_http_requests_total",
                   Label("endpoint", key.first) + "," +
                       Label("status", std::to_string(key.second)),
                   count);
  }
  text +=
      Head("nexus_chat_tier_total", "counter",
           "Chat answers, by how the schema's cells came into the context.");
  for (const auto& [tier, count] : tiers_) {
    text += Sample("nexus_chat_tier_total", Label("tier", tier), count);
  }
  text += Head("nexus_prompt_tokens_total", "counter",
               "Prompt tokens, by how their cells were made.");
  for (const auto& [how, count] : prompt_tokens_) {
    text += Sample("nexus_prompt_tokens_total", Label("how", how), count);
  }
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    text += Head(name, "counter", help) + Sample(name, "", value);
  };
  const auto gauge = [&](const char* name, const char* help, size_t value) {
    text += Head(name, "gauge", help) + Sample(name, "", value);
  };
  const auto histogram = [&](const char* name, const char* help,
                             const Histogram& values) {
    text += Head(name, "histogram", help) + values.Text(name);
  };
  counter("nexus_completion_tokens_total", "Tokens sampled.",
          completion_tokens_);
  text += Head("nexus_audits_total", "counter",
               "Spliced answers compared with a full prefill, by outcome.");
  for (const auto& [outcome, count] : audits_) {
    text += Sample("nexus_audits_total", Label("outcome", outcome), count);
  }
  counter("nexus_audited_tokens_total", "Tokens that audits compared.",
          audited_tokens_);
  text += Head("nexus_audited_kl_nats_total", "counter",
               "KL from full prefill, summed over those tokens.") +
          "nexus_audited_kl_nats_total " + NumberText(audited_kl_) + "\n";
  histogram("nexus_ttft_seconds", "Arrival to first sampled token.", ttft_);
  histogram("nexus_chat_seconds", "Arrival to the end of the answer.", total_);
  histogram("nexus_queue_seconds", "Wait for the inference thread.", queue_);
  const SchedulerCounts& scheduler = gauges.scheduler;
  gauge("nexus_requests_waiting", "In the queue.", scheduler.waiting);
  gauge("nexus_requests_running", "At work.", scheduler.running);
  counter("nexus_requests_refused_total", "Refused: the queue was full.",
          scheduler.refused);
  counter("nexus_requests_cancelled_total",
          "Cancelled: the client left, or the time was up.",
          scheduler.cancelled);
  counter("nexus_idle_runs_total", "Pieces of idle work begun.",
          scheduler.idle_runs);
  const SessionCacheCounts& sessions = gauges.sessions;
  gauge("nexus_sessions", "Sessions held.", sessions.held);
  counter("nexus_sessions_continued_total",
          "Requests that found their session.", sessions.continued);
  counter("nexus_sessions_taken_over_total",
          "Sessions that went to another conversation.", sessions.taken_over);
  counter("nexus_sessions_shared_tokens_total",
          "Prompt tokens that such sessions and new ones began with.",
          sessions.shared_tokens);
  counter("nexus_batched_decodes_total",
          "Decodes of a token each of several sessions (--parallel).",
          gauges.batch.decodes);
  counter("nexus_batched_tokens_total", "Tokens of those decodes.",
          gauges.batch.tokens);
  gauge("nexus_connections", "Open connections.", gauges.connections);
  return text;
}

}  // namespace nexus::serve
