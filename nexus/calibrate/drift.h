// Drift: how far a spliced token's values are from those of a full prefill, and
// the two guesses at it that need no prefill.
#ifndef NEXUS_CALIBRATE_DRIFT_H_
#define NEXUS_CALIBRATE_DRIFT_H_

#include <span>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/kv/block_reader.h"
#include "nexus/llm/kv_access.h"

namespace nexus::calibrate {

// One a token: sum over layers of ||V_true - V_block||^2 / ||V_block||^2, the
// quantity whose expectation the sensitivity profile estimates. `rows` are the
// cells of a full prefill of the block's tokens. kInvalidArgument when they
// aren't of the block's shape.
Result<std::vector<float>> TokenDrift(const kv::KvBlock& block,
                                      const llm::KvRows& rows);

// The paper's reference-free proxy, one a token: the variance of the un-rotated
// K over a head's channels, mean over heads and layers. `head_dims` has one a
// layer.
Result<std::vector<float>> KVarianceProxy(const kv::KvBlock& block,
                                          std::span<const uint32_t> head_dims);

// Spearman's rank correlation; ties share the mean of their ranks. 0 for fewer
// than 3 pairs or a constant side.
double SpearmanRho(std::span<const double> a, std::span<const double> b);
double SpearmanRho(std::span<const float> a, std::span<const float> b);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_DRIFT_H_
