#include "nexus/route/router_profile.h"

#include <cmath>
#include <exception>
#include <stdexcept>

namespace nexus::route {
namespace {

constexpr int kVersion = 2;

// Throws what nlohmann throws, or runtime_error; ReadRouterProfile catches.
float NumberWithin(const Json& json, const char* field, double low,
                   double high) {
  const auto value = json.at(field).get<double>();
  if (!(value >= low && value <= high)) {
    throw std::runtime_error(std::string("'") + field + "' is outside " +
                             DumpJson(Json(low)) + " to " +
                             DumpJson(Json(high)));
  }
  return static_cast<float>(value);
}

// Far beyond any that fits; keeps the sum finite.
constexpr double kMaxWeight = 1e6;

constexpr double kMaxBlend = 1000;
constexpr int kMaxDepth = 1000;

GateHead HeadFromJson(const Json& json) {
  GateHead head;
  for (size_t i = 0; i < kGateSignalCount; ++i) {
    head.weights[i] =
        NumberWithin(json.at("weights"), kGateSignalNames[i].data(),
                     -kMaxWeight, kMaxWeight);
  }
  head.bias = NumberWithin(json, "bias", -kMaxWeight, kMaxWeight);
  head.route_at = NumberWithin(json, "route_at", 0, 1);
  head.abstain_below = NumberWithin(json, "abstain_below", 0, head.route_at);
  return head;
}

Json HeadToJson(const GateHead& head) {
  Json weights = Json::object();
  for (size_t i = 0; i < kGateSignalCount; ++i) {
    weights[std::string(kGateSignalNames[i])] = head.weights[i];
  }
  return {{"weights", std::move(weights)},
          {"bias", head.bias},
          {"route_at", head.route_at},
          {"abstain_below", head.abstain_below}};
}

RouterProfile FromJson(const Json& json) {
  RouterProfile profile;
  profile.encoder = json.at("encoder").get<std::string>();
  profile.encoder_sha256 = json.at("encoder_sha256").get<std::string>();
  profile.made = json.at("made").get<std::string>();
  profile.bm25_weight = NumberWithin(json, "bm25_weight", 0, 1);
  profile.head = HeadFromJson(json.at("head"));
  const Json& pairs = json.at("pairs");
  if (!pairs.is_null()) {
    RouterProfile::Pairs& read = profile.pairs.emplace();
    read.reranker = pairs.at("reranker").get<std::string>();
    read.reranker_sha256 = pairs.at("reranker_sha256").get<std::string>();
    read.depth = static_cast<int>(NumberWithin(pairs, "depth", 1, kMaxDepth));
    read.blend = NumberWithin(pairs, "blend", 0, kMaxBlend);
    read.head = HeadFromJson(pairs.at("head"));
  }
  profile.measured = json.at("measured");
  return profile;
}

}  // namespace

std::string RouterProfilePath(std::string_view encoder_path) {
  if (encoder_path.ends_with(".gguf")) encoder_path.remove_suffix(5);
  return std::string(encoder_path) + ".router.json";
}

Result<RouterProfile> ReadRouterProfile(FileSystem& fs, const std::string& path,
                                        std::string_view encoder_fingerprint) {
  if (!fs.Exists(path)) {
    return NotFoundError(path +
                         ": this encoder isn't calibrated for routing; run "
                         "`nexus calibrate-router`");
  }
  NEXUS_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path));
  NEXUS_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  RouterProfile profile;
  try {
    if (json.at("version").get<int>() != kVersion) {
      return IncompatibleError(path + ": a router profile of version " +
                               DumpJson(json.at("version")) + ", expected " +
                               std::to_string(kVersion) +
                               "; run `nexus calibrate-router` again");
    }
    profile = FromJson(json);
  } catch (const std::exception& e) {
    return CorruptionError(path + ": not a router profile: " + e.what() +
                           "; run `nexus calibrate-router` again");
  }
  if (profile.encoder_sha256.empty() ||
      !encoder_fingerprint.starts_with(profile.encoder_sha256)) {
    return IncompatibleError(path + ": made for another encoder (SHA-256 '" +
                             profile.encoder_sha256.substr(0, 16) +
                             "', this one has '" +
                             std::string(encoder_fingerprint.substr(0, 16)) +
                             "'); run `nexus calibrate-router` for this one");
  }
  return profile;
}

Status WriteRouterProfile(FileSystem& fs, const std::string& path,
                          const RouterProfile& profile) {
  Json pairs;
  if (profile.pairs.has_value()) {
    pairs = {{"reranker", profile.pairs->reranker},
             {"reranker_sha256", profile.pairs->reranker_sha256},
             {"depth", profile.pairs->depth},
             {"blend", profile.pairs->blend},
             {"head", HeadToJson(profile.pairs->head)}};
  }
  const Json json = {{"version", kVersion},
                     {"encoder", profile.encoder},
                     {"encoder_sha256", profile.encoder_sha256},
                     {"made", profile.made},
                     {"bm25_weight", profile.bm25_weight},
                     {"head", HeadToJson(profile.head)},
                     {"pairs", std::move(pairs)},
                     {"measured", profile.measured}};
  return WriteFileAtomically(fs, path, DumpJson(json, 2) + "\n");
}

}  // namespace nexus::route
