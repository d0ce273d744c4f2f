#include "nexus/llm/rope_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include "llama.h"

#include "nexus/llm/kv_blob.h"
#include "nexus/llm/rope_candidates.h"

namespace nexus::llm {
namespace {

// Rounding a pair to half-floats moves it by up to 2^-11 of its length, in the
// key at 0 (then rotated) and again in the key at p: 1.2e-3 with both
// components at their worst. Kernels that compute angles by powers instead of
// ggml's recurrence (GPUs) add 1e-3 at 8,192. A base that is off by a
// ten-thousandth errs by 1e-2.
constexpr double kTolerance = 4e-3;

// A pair far shorter than its layer's typical pair is measured against this
// share of the typical length: its rounding error is absolute (a half-float is
// coarser than 2^-11 below 6e-5), and it hardly moves any attention score.
constexpr double kNormFloor = 0.02;

// Below this a layer's keys are rounding noise and prove nothing.
constexpr double kSmallestKey = 1e-4;

// One token decoded alone at one position.
struct Sample {
  Position position = 0;
  // [layer] -> row of elements.
  std::vector<std::vector<float>> k;
  std::vector<std::vector<float>> v;
};

// The same token at 0 and elsewhere.
struct TokenSamples {
  Sample origin;
  std::vector<Sample> moved;
};

std::vector<float> ToFloat(KvType type, const std::vector<uint8_t>& row) {
  std::vector<float> out(row.size() / KvElementBytes(type));
  if (type == KvType::kF32) {
    std::copy_n(row.data(), row.size(), reinterpret_cast<uint8_t*>(out.data()));
  } else {
    simd::F16ToF32(reinterpret_cast<const uint16_t*>(row.data()), out.data(),
                   out.size());
  }
  return out;
}

class LoneDecoder {
 public:
  LoneDecoder(Context& context, KvAccess& access)
      : context_(context),
        access_(access),
        sequence_(access.scratch() == 0 ? 1 : 0) {}

  Result<Sample> At(Token token, Position position);

 private:
  Status DecodeAlone(Token token, Position position);

  Context& context_;
  KvAccess& access_;
  SequenceId sequence_;
};

// Context::Decode wants positions to continue the sequence; a lone token at p
// is just what doesn't.
Status LoneDecoder::DecodeAlone(Token token, Position position) {
  int32_t sequence_count = 1;
  SequenceId* sequences = &sequence_;
  int8_t output = 0;
  llama_batch batch{};
  batch.n_tokens = 1;
  batch.token = &token;
  batch.pos = &position;
  batch.n_seq_id = &sequence_count;
  batch.seq_id = &sequences;
  batch.logits = &output;
  int32_t code = 0;
  try {
    code = llama_decode(context_.handle(), batch);
  } catch (const std::exception& error) {
    return InternalError(error.what());
  }
  if (code == 2) return CancelledError("the RoPE probe was cancelled");
  if (code != 0) {
    return InternalError("the engine can't decode one token at position " +
                         std::to_string(position) + " (code " +
                         std::to_string(code) + ")");
  }
  return Status::Ok();
}

Result<Sample> LoneDecoder::At(Token token, Position position) {
  NEXUS_RETURN_IF_ERROR(DecodeAlone(token, position));
  Result<KvRows> rows = access_.Read(sequence_, position, position + 1);
  context_.Clear();
  if (!rows.ok()) return rows.status();
  Sample sample;
  sample.position = position;
  const KvLayout& layout = access_.layout();
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    sample.k.push_back(ToFloat(layout.layers[i].k_type, rows->k[i]));
    sample.v.push_back(ToFloat(layout.layers[i].v_type, rows->v[i]));
  }
  return sample;
}

// Near and far: near positions show the fastest pairs before they have turned
// many times, far ones the slow pairs and the exact base.
std::vector<Position> ProbePositions(int context_tokens) {
  std::vector<Position> positions;
  for (const Position position : {1, 7, 64, 1023, 4095, context_tokens - 1}) {
    const Position clipped = std::min(position, context_tokens - 1);
    if (clipped > 0 && (positions.empty() || clipped > positions.back())) {
      positions.push_back(clipped);
    }
  }
  return positions;
}

Result<std::vector<TokenSamples>> TakeSamples(Context& context,
                                              KvAccess& access) {
  const int vocab = context.model().info().vocab_size;
  const std::vector<Position> positions =
      ProbePositions(context.options().context_tokens);
  LoneDecoder decoder(context, access);
  std::vector<TokenSamples> samples;
  // One token everywhere; two more at two places, in case its keys say little.
  for (const int seventh : {2, 3, 5}) {
    const Token token = vocab / 7 * seventh;
    TokenSamples& taken = samples.emplace_back();
    NEXUS_ASSIGN_OR_RETURN(taken.origin, decoder.At(token, 0));
    for (size_t i = 0; i < positions.size(); ++i) {
      const bool chosen = samples.size() == 1 || i + 1 == positions.size() ||
                          i == positions.size() / 2;
      if (!chosen) continue;
      NEXUS_ASSIGN_OR_RETURN(Sample moved, decoder.At(token, positions[i]));
      taken.moved.push_back(std::move(moved));
    }
  }
  return samples;
}

double RootMeanSquare(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return values.empty() ? 0
                        : std::sqrt(sum / static_cast<double>(values.size()));
}

// The premise: hidden states don't depend on the position of a lone token, so
// neither does V. Learned position embeddings break it.
Status CheckPremise(const std::vector<TokenSamples>& samples) {
  for (const TokenSamples& token : samples) {
    for (const Sample& sample : token.moved) {
      for (size_t layer = 0; layer < sample.v.size(); ++layer) {
        const std::vector<float>& here = sample.v[layer];
        const std::vector<float>& origin = token.origin.v[layer];
        const double scale = RootMeanSquare(origin);
        for (size_t i = 0; i < here.size(); ++i) {
          const double error = std::fabs(double{here[i]} - double{origin[i]});
          if (!(error <= kTolerance * (scale + std::fabs(origin[i])))) {
            return UnimplementedError(
                "KV layer " + std::to_string(layer) +
                ": V of a lone token at position " +
                std::to_string(sample.position) +
                " differs from V at 0, so its hidden states depend on absolute "
                "positions and blocks can't be moved");
          }
        }
      }
    }
  }
  return Status::Ok();
}

// Largest error of a pair relative to its length, over heads.
double PairError(const RopeCandidate& candidate,
                 std::span<const float> expected,
                 std::span<const float> actual) {
  const size_t dims = candidate.head_dim;
  const size_t pairs = candidate.params.rotated_dims / 2;
  const bool adjacent =
      candidate.params.layout == simd::RopeLayout::kAdjacentPairs;
  const double floor = kNormFloor * RootMeanSquare(expected) +
                       std::numeric_limits<double>::min();
  double worst = 0;
  const auto measure = [&](double error, double length) {
    const double relative = error / std::max(length, floor);
    // NaN must not pass for a small error.
    if (!(relative <= worst)) worst = std::isnan(relative) ? 1e9 : relative;
  };
  for (size_t head = 0; head < expected.size(); head += dims) {
    for (size_t i = 0; i < pairs; ++i) {
      const size_t a = head + (adjacent ? 2 * i : i);
      const size_t b = head + (adjacent ? 2 * i + 1 : pairs + i);
      measure(std::hypot(actual[a] - expected[a], actual[b] - expected[b]),
              std::hypot(double{expected[a]}, double{expected[b]}));
    }
    for (size_t i = 2 * pairs; i < dims; ++i) {
      measure(std::fabs(actual[head + i] - expected[head + i]),
              std::fabs(expected[head + i]));
    }
  }
  return worst;
}

// Largest error of a candidate on a layer. Stops early once it is above
// `limit`.
double CandidateError(const RopeCandidate& candidate,
                      const std::vector<TokenSamples>& samples, size_t layer,
                      double limit) {
  const size_t pairs = candidate.params.rotated_dims / 2;
  const simd::RopeRowShape shape = {
      .head_count = samples[0].origin.k[layer].size() / candidate.head_dim,
      .head_dim = candidate.head_dim,
      .rotated_dims = candidate.params.rotated_dims,
      .layout = candidate.params.layout};
  std::vector<float> cos(pairs);
  std::vector<float> sin(pairs);
  double worst = 0;
  for (const TokenSamples& token : samples) {
    const std::vector<float>& origin = token.origin.k[layer];
    std::vector<float> rotated(origin.size());
    for (const Sample& sample : token.moved) {
      if (pairs == 0) {
        rotated = origin;
      } else {
        simd::RopeCosSin(candidate.params, sample.position, cos, sin);
        simd::RotateRowF32(shape, cos.data(), sin.data(), origin.data(),
                           rotated.data());
      }
      worst = std::max(worst, PairError(candidate, rotated, sample.k[layer]));
      if (worst > limit) return worst;
    }
  }
  return worst;
}

Result<LayerRope> ProbeLayer(const std::vector<RopeCandidate>& candidates,
                             const std::vector<TokenSamples>& samples,
                             size_t layer) {
  const size_t row = samples[0].origin.k[layer].size();
  double largest = 0;
  for (const TokenSamples& token : samples) {
    largest = std::max(largest, RootMeanSquare(token.origin.k[layer]));
  }
  if (!(largest > kSmallestKey)) {
    return UnimplementedError("KV layer " + std::to_string(layer) +
                              ": keys of the probed tokens are too small to "
                              "show how they are rotated");
  }
  const RopeCandidate* best = nullptr;
  double best_error = std::numeric_limits<double>::infinity();
  for (const RopeCandidate& candidate : candidates) {
    if (row % candidate.head_dim != 0) continue;
    const double error = CandidateError(candidate, samples, layer, best_error);
    if (error < best_error) {
      best = &candidate;
      best_error = error;
    }
    // In order of plausibility: the first that fits is taken.
    if (error <= kTolerance) break;
  }
  if (best == nullptr || best_error > kTolerance) {
    char error[32];
    std::snprintf(error, sizeof(error), "%.3g", best_error);
    return UnimplementedError(
        "KV layer " + std::to_string(layer) +
        ": no known rotation explains its keys; the best, " +
        (best == nullptr ? std::string("none of the right size")
                         : DescribeRope(*best)) +
        ", is off by " + error);
  }
  return LayerRope{.params = best->params,
                   .head_count = static_cast<uint32_t>(row / best->head_dim),
                   .head_dim = best->head_dim,
                   .worst_error = best_error};
}

}  // namespace

Result<RopeSpec> ProbeRope(Context& context, KvAccess& access) {
  for (SequenceId i = 0; i < context.options().sequences; ++i) {
    if (context.PositionEnd(i) != 0) {
      return InvalidArgumentError("the RoPE probe needs an empty context");
    }
  }
  NEXUS_ASSIGN_OR_RETURN(const std::vector<RopeCandidate> candidates,
                         ListRopeCandidates(context.model()));
  Result<std::vector<TokenSamples>> samples = TakeSamples(context, access);
  context.Clear();
  if (!samples.ok()) return samples.status();
  NEXUS_RETURN_IF_ERROR(CheckPremise(*samples));
  RopeSpec spec;
  for (size_t i = 0; i < access.layout().layers.size(); ++i) {
    NEXUS_ASSIGN_OR_RETURN(LayerRope rope, ProbeLayer(candidates, *samples, i));
    spec.layers.push_back(std::move(rope));
  }
  return spec;
}

namespace {

// "0-3,5": sorted layer numbers, runs of three and more as ranges.
std::string LayerRanges(const std::vector<size_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (end - i >= 2) {
      text += (end - i == 2 ? ',' : '-') + std::to_string(numbers[end - 1]);
    }
    i = end;
  }
  return text;
}

}  // namespace

std::string RopeSpec::Describe() const {
  // Settings in order of their first layer, with the layers that share them.
  std::vector<std::pair<std::string, std::vector<size_t>>> lines;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerRope& layer = layers[i];
    std::string setting =
        DescribeRope({.params = layer.params, .head_dim = layer.head_dim}) +
        ", " + std::to_string(layer.head_count) + " KV heads";
    const auto known =
        std::find_if(lines.begin(), lines.end(),
                     [&](const auto& line) { return line.first == setting; });
    if (known == lines.end()) {
      lines.push_back({std::move(setting), {i}});
    } else {
      known->second.push_back(i);
    }
  }
  std::string text;
  for (const auto& [setting, numbers] : lines) {
    if (!text.empty()) text += '\n';
    text += setting + ": layers " + LayerRanges(numbers);
  }
  return text;
}

}  // namespace nexus::llm
