// Trials as lines of JSON: what a stopped study goes on from, and what plots
// and fits read.
#include <exception>

#include "nexus/calibrate/fidelity_study.h"

namespace nexus::calibrate {
namespace {

Json ArmToJson(const TrialArm& arm) {
  Json json = Json::object();
  if (arm.noise) {
    json["noise"] = true;
  } else {
    json["policy"] = kv::RepairPolicyName(arm.arm.policy);
    json["share"] = arm.arm.share;
    json["contexts"] = arm.arm.contexts;
    json["storage"] = kv::BlockStorageName(arm.arm.storage);
    json["shared"] = arm.arm.shared;
    json["min_run"] = arm.arm.min_run;
    json["recompute_share"] = arm.recompute_share;
    json["runs"] = arm.runs;
    json["ttft_ms"] = arm.ttft_ms;
    json["predicted"] = arm.predicted;
  }
  json["kl"] = arm.kl;
  Json top1 = Json::array();
  for (const char equal : arm.top1) top1.push_back(equal != 0 ? 1 : 0);
  json["top1"] = std::move(top1);
  return json;
}

TrialArm ArmFromJson(const Json& json) {
  TrialArm arm;
  arm.noise = json.value("noise", false);
  if (!arm.noise) {
    const auto policy =
        kv::ParseRepairPolicy(json.at("policy").get<std::string>());
    if (!policy.has_value()) throw std::runtime_error("unknown policy");
    const auto storage =
        kv::ParseBlockStorage(json.value("storage", std::string("f16")));
    if (!storage.has_value()) throw std::runtime_error("unknown storage");
    arm.arm = {*policy,
               json.at("share").get<double>(),
               json.at("contexts").get<int>(),
               json.value("shared", 0.0),
               *storage,
               json.value("min_run", 0)};
    arm.recompute_share = json.at("recompute_share").get<double>();
    arm.runs = json.at("runs").get<int>();
    arm.ttft_ms = json.at("ttft_ms").get<double>();
    arm.predicted = json.at("predicted").get<double>();
  }
  arm.kl = json.at("kl").get<std::vector<double>>();
  for (const Json& equal : json.at("top1")) {
    arm.top1.push_back(equal.get<int>() != 0 ? 1 : 0);
  }
  if (arm.kl.size() != arm.top1.size()) {
    throw std::runtime_error("kl and top1 have different lengths");
  }
  return arm;
}

}  // namespace

Json TrialToJson(const Trial& trial) {
  Json json = {{"depth", trial.depth},
               {"past_tokens", trial.past_tokens},
               {"history", trial.history},
               {"tool", trial.tool},
               {"question", trial.question},
               {"block_tokens", trial.block_tokens},
               {"prefill_ms", trial.prefill_ms},
               {"rho_sensitivity", trial.rho_sensitivity},
               {"rho_k_variance", trial.rho_k_variance},
               {"k_variance", trial.k_variance}};
  Json arms = Json::array();
  for (const TrialArm& arm : trial.arms) arms.push_back(ArmToJson(arm));
  json["arms"] = std::move(arms);
  return json;
}

Result<Trial> TrialFromJson(const Json& json, std::string_view source) {
  try {
    Trial trial;
    trial.depth = json.at("depth").get<int>();
    trial.past_tokens = json.at("past_tokens").get<int>();
    trial.history = json.at("history").get<std::string>();
    trial.tool = json.at("tool").get<std::string>();
    trial.question = json.at("question").get<std::string>();
    trial.block_tokens = json.at("block_tokens").get<int>();
    trial.prefill_ms = json.at("prefill_ms").get<double>();
    trial.rho_sensitivity = json.at("rho_sensitivity").get<double>();
    trial.rho_k_variance = json.at("rho_k_variance").get<double>();
    trial.k_variance = json.at("k_variance").get<double>();
    for (const Json& arm : json.at("arms")) {
      trial.arms.push_back(ArmFromJson(arm));
    }
    return trial;
  } catch (const std::exception& error) {
    return CorruptionError(std::string(source) +
                           ": not a trial of this version (" + error.what() +
                           "); delete the file to measure anew");
  }
}

}  // namespace nexus::calibrate
