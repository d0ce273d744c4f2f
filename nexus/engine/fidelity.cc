#include "nexus/engine/fidelity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nexus::engine {
namespace {

size_t ArgMax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) -
                             values.begin());
}

}  // namespace

void LogSoftmax(std::span<const float> logits, std::span<float> log_probs) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - top));
  const double log_sum = std::log(sum) + static_cast<double>(top);
  for (size_t i = 0; i < logits.size(); ++i) {
    log_probs[i] = static_cast<float>(static_cast<double>(logits[i]) - log_sum);
  }
}

double KlDivergence(std::span<const float> reference_log_probs,
                    std::span<const float> trial_log_probs) {
  double kl = 0;
  for (size_t i = 0; i < reference_log_probs.size(); ++i) {
    const double p = static_cast<double>(reference_log_probs[i]);
    kl += std::exp(p) * (p - static_cast<double>(trial_log_probs[i]));
  }
  return std::max(kl, 0.0);
}

void FidelityStats::Add(const FidelityStats& other) {
  kl.insert(kl.end(), other.kl.begin(), other.kl.end());
  top1_equal += other.top1_equal;
}

double FidelityStats::KlMean() const {
  if (kl.empty()) return 0;
  return std::accumulate(kl.begin(), kl.end(), 0.0) /
         static_cast<double>(kl.size());
}

double FidelityStats::Top1() const {
  if (kl.empty()) return 0;
  return static_cast<double>(top1_equal) / static_cast<double>(kl.size());
}

Result<FidelityReference> GenerateReference(Session& session, int token_count) {
  FidelityReference reference;
  for (int i = 0; i < token_count; ++i) {
    const std::span<const float> logits = session.logits();
    std::vector<float>& row = reference.log_probs.emplace_back(logits.size());
    LogSoftmax(logits, row);
    const auto token = static_cast<llm::Token>(ArgMax(logits));
    reference.tokens.push_back(token);
    NEXUS_RETURN_IF_ERROR(session.Append({&token, 1}, llm::Logits::kLast));
  }
  return reference;
}

Result<FidelityStats> CompareWithReference(Session& session,
                                           const FidelityReference& reference) {
  FidelityStats stats;
  std::vector<float> row;
  for (size_t i = 0; i < reference.tokens.size(); ++i) {
    const std::span<const float> logits = session.logits();
    row.resize(logits.size());
    LogSoftmax(logits, row);
    stats.kl.push_back(KlDivergence(reference.log_probs[i], row));
    stats.top1_equal +=
        ArgMax(logits) == static_cast<size_t>(reference.tokens[i]) ? 1 : 0;
    NEXUS_RETURN_IF_ERROR(
        session.Append({&reference.tokens[i], 1}, llm::Logits::kLast));
  }
  return stats;
}

}  // namespace nexus::engine
