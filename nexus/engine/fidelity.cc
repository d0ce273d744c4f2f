#include "nexus/engine/fidelity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

namespace nexus::engine {
namespace {

size_t ArgMax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) -
                             values.begin());
}

// Decodes all tokens but the last in one batch, and hands out the rows behind
// them as positions 1, 2, ...
template <typename Visitor>
Status VisitRows(Session& session, std::span<const llm::Token> tokens,
                 const Visitor& visit) {
  if (tokens.size() < 2) return Status::Ok();
  const size_t count = tokens.size() - 1;
  NEXUS_RETURN_IF_ERROR(session.Append(tokens.first(count), llm::Logits::kAll));
  for (size_t i = 0; i < count; ++i) {
    visit(i + 1, session.context().LogitsRow(static_cast<int>(i)));
  }
  return Status::Ok();
}

// `first` are the logits that the session gave before any of the tokens.
Result<FidelityReference> ReferenceBehind(Session& session,
                                          std::span<const float> first,
                                          std::vector<llm::Token> tokens) {
  FidelityReference reference;
  reference.tokens = std::move(tokens);
  const auto keep = [&](size_t, std::span<const float> logits) {
    LogSoftmax(logits, reference.log_probs.emplace_back(logits.size()));
  };
  if (reference.tokens.empty()) return reference;
  keep(0, first);
  NEXUS_RETURN_IF_ERROR(VisitRows(session, reference.tokens, keep));
  return reference;
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

double FidelityStats::KlMean() const {
  if (kl.empty()) return 0;
  return std::accumulate(kl.begin(), kl.end(), 0.0) /
         static_cast<double>(kl.size());
}

double FidelityStats::Top1() const {
  if (top1.empty()) return 0;
  return static_cast<double>(std::count(top1.begin(), top1.end(), 1)) /
         static_cast<double>(top1.size());
}

Result<FidelityReference> GenerateReference(Session& session, int max_tokens) {
  const llm::Model& model = session.context().model();
  const size_t begin = session.tokens().size();
  const std::vector<float> first(session.logits().begin(),
                                 session.logits().end());
  std::vector<llm::Token> tokens;
  while (static_cast<int>(tokens.size()) < max_tokens) {
    const auto token = static_cast<llm::Token>(ArgMax(session.logits()));
    // A reference without any position would compare nothing.
    if (model.IsEndOfGeneration(token) && !tokens.empty()) break;
    tokens.push_back(token);
    NEXUS_RETURN_IF_ERROR(session.Append({&token, 1}, llm::Logits::kLast));
  }
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(begin));
  return ReferenceBehind(session, first, std::move(tokens));
}

Result<FidelityReference> ReferenceOf(Session& session,
                                      std::span<const llm::Token> tokens) {
  const std::vector<float> first(session.logits().begin(),
                                 session.logits().end());
  return ReferenceBehind(session, first, {tokens.begin(), tokens.end()});
}

Result<FidelityStats> CompareWithReference(Session& session,
                                           const FidelityReference& reference) {
  FidelityStats stats;
  std::vector<float> row;
  const auto compare = [&](size_t i, std::span<const float> logits) {
    row.resize(logits.size());
    LogSoftmax(logits, row);
    stats.kl.push_back(KlDivergence(reference.log_probs[i], row));
    const auto& expected = reference.log_probs[i];
    stats.top1.push_back(ArgMax(logits) == ArgMax(expected) ? 1 : 0);
  };
  if (reference.tokens.empty()) return stats;
  compare(0, session.logits());
  NEXUS_RETURN_IF_ERROR(VisitRows(session, reference.tokens, compare));
  return stats;
}

Status PrefillInOddPieces(Session& session, const PromptPlan& plan) {
  // Batches that aren't a multiple of four, and single tokens, take other
  // kernels.
  constexpr std::array<size_t, 3> kPieces = {61, 1, 35};
  const std::span<const llm::Token> block = plan.block;
  size_t piece = 0;
  for (size_t at = 0; at < block.size(); ++piece) {
    const size_t count =
        std::min(kPieces[piece % kPieces.size()], block.size() - at);
    NEXUS_RETURN_IF_ERROR(
        session.Append(block.subspan(at, count), llm::Logits::kNone));
    at += count;
  }
  NEXUS_RETURN_IF_ERROR(session.Append(plan.user, llm::Logits::kNone));
  return session.Append(plan.preamble, llm::Logits::kLast);
}

}  // namespace nexus::engine
