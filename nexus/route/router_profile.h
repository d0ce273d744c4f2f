// RouterProfile: what `nexus calibrate-router` learnt for one encoder, kept
// beside it as NAME.router.json. Without one the router uses reciprocal rank
// fusion and the paper's margin rule.
#ifndef NEXUS_ROUTE_ROUTER_PROFILE_H_
#define NEXUS_ROUTE_ROUTER_PROFILE_H_

#include <optional>
#include <string>
#include <string_view>

#include "nexus/base/file_system.h"
#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/route/gate_head.h"

namespace nexus::route {

struct RouterProfile {
  std::string encoder;         // file name, for people
  std::string encoder_sha256;  // hexadecimal
  std::string made;            // date
  float bm25_weight = 0;       // RouterOptions::bm25_weight
  GateHead head;
  // Where a cross-encoder was calibrated with it.
  struct Pairs {
    std::string reranker;         // file name, for people
    std::string reranker_sha256;  // hexadecimal
    int depth = 0;                // RouterOptions::rerank_depth
    float blend = 0;              // PairGateOptions::blend
    GateHead head;
  };
  std::optional<Pairs> pairs;
  // Figures on the calibration queries, for people.
  Json measured = Json::object();
};

// RouterOptions::bm25_weight of an encoder without a profile. The hill of top-1
// is flat: 0.10 and 0.15 are best for the committed encoder on two choices of
// sets, all from 0.05 to 0.5 within 1.2 points, and reciprocal ranks, which
// weigh words as much as cosines, lose 6 (bench/RESULTS.md).
inline constexpr float kUncalibratedBm25Weight = 0.15F;

// "models/x.gguf" -> "models/x.router.json".
std::string RouterProfilePath(std::string_view encoder_path);

// kNotFound; kCorruption names the field; kIncompatible: of another version, or
// of an encoder whose fingerprint (llm::Embedder) begins otherwise.
Result<RouterProfile> ReadRouterProfile(FileSystem& fs, const std::string& path,
                                        std::string_view encoder_fingerprint);
Status WriteRouterProfile(FileSystem& fs, const std::string& path,
                          const RouterProfile& profile);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_ROUTER_PROFILE_H_
