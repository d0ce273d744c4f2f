#include "nexus/route/router_profile.h"

#include <cmath>
#include <exception>
#include <stdexcept>

namespace nexus::route {
namespace {

constexpr int kVersion = 1;

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

RouterProfile FromJson(const Json& json) {
  RouterProfile profile;
  profile.encoder = json.at("encoder").get<std::string>();
  profile.encoder_sha256 = json.at("encoder_sha256").get<std::string>();
  profile.made = json.at("made").get<std::string>();
  profile.bm25_weight = NumberWithin(json, "bm25_weight", 0, 1);
  const Json& head = json.at("head");
  for (size_t i = 0; i < kGateSignalCount; ++i) {
    profile.head.weights[i] =
        NumberWithin(head.at("weights"), kGateSignalNames[i].data(),
                     -kMaxWeight, kMaxWeight);
  }
  profile.head.bias = NumberWithin(head, "bias", -kMaxWeight, kMaxWeight);
  profile.head.route_at = NumberWithin(head, "route_at", 0, 1);
  profile.head.abstain_below =
      NumberWithin(head, "abstain_below", 0, profile.head.route_at);
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
  Json weights = Json::object();
  for (size_t i = 0; i < kGateSignalCount; ++i) {
    weights[std::string(kGateSignalNames[i])] = profile.head.weights[i];
  }
  const Json json = {{"version", kVersion},
                     {"encoder", profile.encoder},
                     {"encoder_sha256", profile.encoder_sha256},
                     {"made", profile.made},
                     {"bm25_weight", profile.bm25_weight},
                     {"head",
                      {{"weights", std::move(weights)},
                       {"bias", profile.head.bias},
                       {"route_at", profile.head.route_at},
                       {"abstain_below", profile.head.abstain_below}}},
                     {"measured", profile.measured}};
  return WriteFileAtomically(fs, path, DumpJson(json, 2) + "\n");
}

}  // namespace nexus::route
