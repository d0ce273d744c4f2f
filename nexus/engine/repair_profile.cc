#include "nexus/engine/repair_profile.h"

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

namespace nexus::engine {
namespace {

constexpr int kProfileVersion = 3;
// Without `contexts` and `storage`: all rows are of the profile's contexts.
constexpr int kProfileVersionOfOneKind = 2;

Json RowToJson(const RepairRow& row) {
  Json json = {{"budget", BudgetName(row.budget)},
               {"blocks", row.blocks},
               {"max_depth", row.max_depth},
               {"shared", row.shared}};
  if (row.shared == 0) {
    json["contexts"] = row.contexts;
    json["storage"] = kv::BlockStorageName(row.storage);
  }
  if (row.prefill) {
    json["tier"] = "prefill";
    json["reason"] = row.reason;
  } else {
    json["tier"] = "splice";
    json["policy"] = kv::RepairPolicyName(row.policy);
    json["share"] = row.share;
  }
  json["kl_mean"] = row.kl_mean;
  json["top1"] = row.top1;
  json["ttft_ratio"] = row.ttft_ratio;
  json["n"] = row.n;
  return json;
}

// Throws what nlohmann throws, or runtime_error; ReadProfile catches.
RepairRow RowFromJson(const Json& json, int version, int compile_contexts) {
  RepairRow row;
  const auto budget = ParseBudget(json.at("budget").get<std::string>());
  if (!budget.has_value()) throw std::runtime_error("unknown budget");
  row.budget = *budget;
  row.blocks = json.at("blocks").get<int>();
  row.max_depth = json.at("max_depth").get<int>();
  row.shared = json.at("shared").get<double>();
  if (!(row.shared >= 0 && row.shared <= 1)) {
    throw std::runtime_error("a row with 'shared' outside 0..1");
  }
  if (row.shared == 0) {
    row.contexts = compile_contexts;
    if (version != kProfileVersionOfOneKind) {
      row.contexts = json.at("contexts").get<int>();
      const auto storage =
          kv::ParseBlockStorage(json.at("storage").get<std::string>());
      if (row.contexts < 1 || !storage.has_value()) {
        throw std::runtime_error(
            "a row with 'contexts' below 1 or an unknown 'storage'");
      }
      row.storage = *storage;
    }
  }
  const auto tier = json.at("tier").get<std::string>();
  row.prefill = tier == "prefill";
  if (row.prefill) {
    row.reason = json.at("reason").get<std::string>();
  } else {
    const auto policy =
        kv::ParseRepairPolicy(json.at("policy").get<std::string>());
    row.share = json.at("share").get<double>();
    if (tier != "splice" || !policy.has_value() ||
        *policy == kv::RepairPolicy::kDeviation ||
        !(row.share >= 0 && row.share <= 1)) {
      throw std::runtime_error("a row with tier '" + tier +
                               "', an unknown policy or a share outside 0..1");
    }
    row.policy = *policy;
  }
  row.kl_mean = json.at("kl_mean").get<double>();
  row.top1 = json.at("top1").get<double>();
  row.ttft_ratio = json.at("ttft_ratio").get<double>();
  row.n = json.at("n").get<int>();
  return row;
}

RepairProfile FromJson(const Json& json, int version) {
  RepairProfile profile;
  profile.model = json.at("model").get<std::string>();
  profile.made = json.at("made").get<std::string>();
  for (const kv::FingerprintField& field : kv::kFingerprintFields) {
    profile.fingerprint.*field.member =
        json.at("fingerprint").at(std::string(field.name)).get<std::string>();
  }
  profile.compile_contexts = json.at("compile_contexts").get<int>();
  profile.noise_kl = json.at("noise_floor").at("kl_mean").get<double>();
  profile.noise_top1 = json.at("noise_floor").at("top1").get<double>();
  profile.anchored_bound = json.at("anchored_bound").get<int>();
  // Iterating null or a text would find nothing.
  if (!json.at("rows").is_array()) throw std::runtime_error("rows: no array");
  for (const Json& row : json.at("rows")) {
    profile.rows.push_back(RowFromJson(row, version, profile.compile_contexts));
  }
  // Absent from files of before lists were measured: nothing is allowed then.
  if (const auto rows = json.find("composition"); rows != json.end()) {
    if (!rows->is_array()) throw std::runtime_error("composition: no array");
    for (const Json& row : *rows) {
      profile.composition.push_back(CompositionRowFromJson(row));
    }
  }
  profile.cells = json.at("cells");
  return profile;
}

}  // namespace

Result<const RepairRow*> RepairProfile::Find(const Place& place) const {
  int deepest = -1;
  int fewest_contexts = 0;
  const RepairRow* best = nullptr;
  // The nearest kind of block first, then the nearest depth.
  const auto order = [](const RepairRow& row) {
    return std::tuple(row.shared, row.contexts, -row.max_depth);
  };
  for (const RepairRow& row : rows) {
    // What was measured of conversation blocks says nothing of compiled ones,
    // nor the other way round.
    if (row.budget != place.budget || row.blocks != place.blocks ||
        row.shared > place.shared || (row.shared > 0) != (place.shared > 0) ||
        (place.shared == 0 && row.storage != place.storage)) {
      continue;
    }
    if (place.shared == 0 && row.contexts > place.contexts) {
      fewest_contexts = fewest_contexts == 0
                            ? row.contexts
                            : std::min(fewest_contexts, row.contexts);
      continue;
    }
    deepest = std::max(deepest, row.max_depth);
    if (place.depth > row.max_depth) continue;
    if (best == nullptr || order(row) > order(*best)) best = &row;
  }
  if (best != nullptr) return best;
  const std::string where = std::string(BudgetName(place.budget)) +
                            " budget, " + std::to_string(place.blocks) +
                            (place.blocks == 1 ? " schema" : " schemas") +
                            (place.shared > 0 ? " of the conversation" : "");
  if (deepest < 0 && fewest_contexts > 0) {
    return NotFoundError("splice: calibrated for the " + where +
                         " with blocks of " + std::to_string(fewest_contexts) +
                         " contexts or more, this one has " +
                         std::to_string(place.contexts));
  }
  if (deepest < 0) {
    return NotFoundError("splice: not calibrated for the " + where +
                         (place.storage.is_as_cached()
                              ? ""
                              : " with blocks stored as " +
                                    kv::BlockStorageName(place.storage)));
  }
  return NotFoundError("splice: calibrated for the " + where + " up to depth " +
                       std::to_string(deepest) + ", this is " +
                       std::to_string(place.depth));
}

Json ProfileToJson(const RepairProfile& profile) {
  Json fingerprint = Json::object();
  for (const kv::FingerprintField& field : kv::kFingerprintFields) {
    fingerprint[std::string(field.name)] = profile.fingerprint.*field.member;
  }
  Json rows = Json::array();
  for (const RepairRow& row : profile.rows) rows.push_back(RowToJson(row));
  Json composition = Json::array();
  for (const CompositionRow& row : profile.composition) {
    composition.push_back(CompositionRowToJson(row));
  }
  return {{"schema_version", kProfileVersion},
          {"model", profile.model},
          {"made", profile.made},
          {"fingerprint", std::move(fingerprint)},
          {"compile_contexts", profile.compile_contexts},
          {"noise_floor",
           {{"kl_mean", profile.noise_kl}, {"top1", profile.noise_top1}}},
          {"anchored_bound", profile.anchored_bound},
          {"rows", std::move(rows)},
          {"composition", std::move(composition)},
          {"cells", profile.cells}};
}

Result<RepairProfile> ReadProfile(FileSystem& fs, const std::string& path,
                                  const kv::Fingerprint* expected) {
  NEXUS_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path));
  NEXUS_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  try {
    const int version = json.at("schema_version").get<int>();
    if (version != kProfileVersion && version != kProfileVersionOfOneKind) {
      return IncompatibleError(path + ": profile of version " +
                               std::to_string(version) + ", this Nexus reads " +
                               std::to_string(kProfileVersion) +
                               "; run `nexus calibrate` again");
    }
    RepairProfile profile = FromJson(json, version);
    profile.path = path;
    const std::string difference =
        expected != nullptr
            ? kv::FirstDifference(*expected, profile.fingerprint)
            : "";
    if (!difference.empty()) {
      return IncompatibleError(
          path + ": profile of another model or engine: " + difference);
    }
    return profile;
  } catch (const std::exception& error) {
    return CorruptionError(path + ": not a profile (" + error.what() +
                           "); run `nexus calibrate` again");
  }
}

Result<RepairProfile> FindProfile(FileSystem& fs,
                                  const std::vector<std::string>& dirs,
                                  const kv::Fingerprint& expected) {
  std::string passed_over;
  for (const std::string& dir : dirs) {
    const auto names = fs.ListDir(dir);
    if (!names.ok()) continue;  // most installations have one of the folders
    for (const std::string& name : *names) {
      if (!name.ends_with(".json")) continue;
      auto profile = ReadProfile(fs, dir + "/" + name, &expected);
      if (profile.ok()) return profile;
      // Those of other models are expected to be here and tell nothing.
      if (profile.status().message().find("model_sha256") ==
          std::string::npos) {
        passed_over += "; " + profile.status().message();
      }
    }
  }
  return NotFoundError(
      "splice: this model isn't calibrated, so the paper's repair curve holds; "
      "run `nexus calibrate`" +
      passed_over);
}

std::string UserProfileDir() { return UserCacheDir() + "/profiles"; }

}  // namespace nexus::engine
