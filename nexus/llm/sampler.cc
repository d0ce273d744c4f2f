#include "nexus/llm/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "nexus/llm/gbnf.h"
#include "nexus/llm/grammar_matcher.h"
#include "nexus/llm/vocabulary_index.h"

namespace nexus::llm {
namespace {

using State = GrammarMatcher::State;

// The matcher's cache is about 1 KB a state.
constexpr size_t kCompactStates = 8192;

struct Candidate {
  Token token = -1;
  float logit = 0;
  State state = GrammarMatcher::kDead;  // after the token, under a grammar
};

// Most likely first; the lower id first among equals, so that the order, and
// with it the text, doesn't depend on a sort's whims.
bool MoreLikely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

Status CheckOptions(const SamplerOptions& options) {
  if (!(options.temperature >= 0.0F) || !std::isfinite(options.temperature)) {
    return InvalidArgumentError("temperature must be 0 or more");
  }
  if (!(options.top_p > 0.0F && options.top_p <= 1.0F)) {
    return InvalidArgumentError("top_p must be above 0 and at most 1");
  }
  if (options.top_k < 0) return InvalidArgumentError("top_k must be 0 or more");
  return Status::Ok();
}

}  // namespace

struct Sampler::Impl {
  const Model* model = nullptr;
  const VocabularyIndex* vocabulary = nullptr;
  SamplerOptions options;
  std::optional<GrammarMatcher> matcher;
  State state = 0;
  // The algorithm is fixed by the standard, which std::*_distribution aren't.
  std::mt19937_64 random;
  std::vector<Candidate> candidates;

  // Uniform in [0, 1), 53 bits.
  double NextUniform() {
    return static_cast<double>(random() >> 11) * 0x1.0p-53;
  }

  Status CheckLogits(std::span<const float> logits) const {
    const auto size = static_cast<size_t>(model->info().vocab_size);
    if (logits.size() != size) {
      return InvalidArgumentError(std::to_string(logits.size()) +
                                  " logits for a vocabulary of " +
                                  std::to_string(size));
    }
    for (size_t i = 0; i < size; ++i) {
      if (std::isnan(logits[i])) {
        return InternalError("logit " + std::to_string(i) +
                             " isn't a number; the model or its KV cache is "
                             "damaged");
      }
    }
    return Status::Ok();
  }

  void CollectEveryToken(std::span<const float> logits) {
    candidates.clear();
    for (size_t i = 0; i < logits.size(); ++i) {
      candidates.push_back({static_cast<Token>(i), logits[i], 0});
    }
  }

  // What the grammar allows in the present state.
  void CollectAllowed(std::span<const float> logits) {
    candidates.clear();
    vocabulary->ForEachAllowed(*matcher, state, [&](Token token, State next) {
      candidates.push_back({token, logits[static_cast<size_t>(token)], next});
    });
    if (matcher->Accepts(state)) AddEndTokens(logits);
  }

  void AddEndTokens(std::span<const float> logits) {
    for (Token token : vocabulary->end_tokens()) {
      candidates.push_back({token, logits[static_cast<size_t>(token)], state});
    }
  }

  // The state after `token`, kDead when the grammar doesn't allow it.
  State After(Token token) {
    if (!matcher) return 0;
    if (model->IsEndOfGeneration(token)) {
      return matcher->Accepts(state) ? state : GrammarMatcher::kDead;
    }
    const std::string_view text = vocabulary->Text(token);
    if (text.empty()) return GrammarMatcher::kDead;
    State next = state;
    for (char c : text) {
      next = matcher->Step(next, static_cast<uint8_t>(c));
      if (next == GrammarMatcher::kDead) break;
    }
    return next;
  }

  Token Accept(const Candidate& candidate) {
    if (!matcher) return candidate.token;
    state = candidate.state;
    if (matcher->state_count() > kCompactStates) {
      state = matcher->Compact(state);
    }
    return candidate.token;
  }

  // Draws from `candidates` by temperature, then top_k, then top_p.
  std::optional<Candidate> Draw() {
    if (candidates.empty()) return std::nullopt;
    const auto best =
        *std::min_element(candidates.begin(), candidates.end(), MoreLikely);
    if (options.temperature == 0.0F || !std::isfinite(best.logit)) return best;
    // Less likely than 2^-53, the step of NextUniform, even all together.
    const float floor = best.logit - 60.0F * options.temperature;
    std::erase_if(candidates,
                  [&](const Candidate& c) { return !(c.logit >= floor); });
    std::sort(candidates.begin(), candidates.end(), MoreLikely);
    if (options.top_k > 0 &&
        candidates.size() > static_cast<size_t>(options.top_k)) {
      candidates.resize(static_cast<size_t>(options.top_k));
    }
    std::vector<double> weights;
    weights.reserve(candidates.size());
    double total = 0.0;
    for (const Candidate& candidate : candidates) {
      weights.push_back(std::exp((static_cast<double>(candidate.logit) -
                                  static_cast<double>(best.logit)) /
                                 static_cast<double>(options.temperature)));
      total += weights.back();
    }
    double kept = 0.0;
    size_t count = 0;
    while (count < weights.size() &&
           kept < static_cast<double>(options.top_p) * total) {
      kept += weights[count++];
    }
    double left = NextUniform() * kept;
    for (size_t i = 0; i < count; ++i) {
      left -= weights[i];
      if (left < 0.0) return candidates[i];
    }
    return candidates[std::max<size_t>(count, 1) - 1];
  }

  Status NothingFits() const {
    return InternalError(
        "no token of the vocabulary fits the grammar here; the grammar needs "
        "text that the vocabulary can't spell");
  }
};

Sampler::Sampler() : impl_(std::make_unique<Impl>()) {}
Sampler::~Sampler() = default;

Result<std::unique_ptr<Sampler>> Sampler::Create(
    const Model& model, const SamplerOptions& options) {
  NEXUS_RETURN_IF_ERROR(CheckOptions(options));
  std::unique_ptr<Sampler> sampler(new Sampler());
  Impl& impl = *sampler->impl_;
  impl.model = &model;
  impl.vocabulary = &model.vocabulary();
  impl.options = options;
  impl.random.seed(options.seed);
  if (!options.grammar.empty()) {
    auto program = ParseGbnf(options.grammar);
    if (!program.ok()) return program.status();
    impl.matcher.emplace(*std::move(program));
    impl.state = impl.matcher->start();
    if (impl.state == GrammarMatcher::kDead) return impl.NothingFits();
  }
  return sampler;
}

Result<Token> Sampler::Sample(std::span<const float> logits) {
  Impl& impl = *impl_;
  NEXUS_RETURN_IF_ERROR(impl.CheckLogits(logits));
  // First without the grammar: most often the model's choice fits it. Drawing
  // again among what fits when it doesn't leaves the distribution as it should
  // be: p(x) + (1 - Z) p(x) / Z = p(x) / Z, with Z the share that fits.
  std::optional<Candidate> choice;
  if (impl.options.temperature == 0.0F) {
    const auto best = std::max_element(logits.begin(), logits.end());
    choice = {static_cast<Token>(best - logits.begin()), *best, 0};
  } else {
    impl.CollectEveryToken(logits);
    choice = impl.Draw();
  }
  if (choice && choice->logit == -std::numeric_limits<float>::infinity()) {
    return InternalError("every logit is minus infinity");
  }
  if (choice) {
    choice->state = impl.After(choice->token);
    if (choice->state != GrammarMatcher::kDead) return impl.Accept(*choice);
  }
  impl.CollectAllowed(logits);
  choice = impl.Draw();
  if (!choice) return impl.NothingFits();
  return impl.Accept(*choice);
}

Result<Token> Sampler::SampleClosing(std::span<const float> logits) {
  Impl& impl = *impl_;
  NEXUS_RETURN_IF_ERROR(impl.CheckLogits(logits));
  impl.candidates.clear();
  if (!impl.matcher || impl.matcher->Accepts(impl.state)) {
    impl.AddEndTokens(logits);
    if (impl.candidates.empty()) {
      return InternalError("the model has no end-of-generation token");
    }
  } else {
    // Any token that leaves fewer bytes to write than now: the end comes after
    // at most BytesToEnd tokens, and the model still chooses between equals.
    const uint32_t now = impl.matcher->BytesToEnd(impl.state);
    impl.vocabulary->ForEachAllowed(
        *impl.matcher, impl.state, [&](Token token, State next) {
          if (impl.matcher->BytesToEnd(next) >= now) return;
          impl.candidates.push_back(
              {token, logits[static_cast<size_t>(token)], next});
        });
    if (impl.candidates.empty()) return impl.NothingFits();
  }
  return impl.Accept(*std::min_element(impl.candidates.begin(),
                                       impl.candidates.end(), MoreLikely));
}

int Sampler::ClosingTokens() const {
  const Impl& impl = *impl_;
  if (!impl.matcher) return 1;
  return static_cast<int>(impl.matcher->BytesToEnd(impl.state)) + 1;
}

}  // namespace nexus::llm
