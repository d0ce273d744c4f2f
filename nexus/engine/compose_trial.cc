#include "nexus/engine/compose_trial.h"

#include <cmath>
#include <exception>
#include <stdexcept>
#include <utility>

namespace nexus::engine {
namespace {

constexpr int kTrialVersion = 1;

Json LayingToJson(const ComposeLaying& laying) {
  Json json = {{"ms", laying.ms},
               {"spliced", laying.spliced},
               {"recomputed", laying.recomputed}};
  if (!laying.notes.empty()) json["notes"] = laying.notes;
  return json;
}

// Throws what nlohmann throws, or runtime_error; ComposeTrialFromJson catches.
ComposeLaying LayingFromJson(const Json& json) {
  ComposeLaying laying;
  laying.ms = json.at("ms").get<double>();
  laying.spliced = json.at("spliced").get<int>();
  laying.recomputed = json.at("recomputed").get<int>();
  if (laying.spliced < 0 || laying.recomputed < 0) {
    throw std::runtime_error("'laying' with fewer than no tokens");
  }
  if (json.contains("notes")) {
    laying.notes = json["notes"].get<std::vector<std::string>>();
  }
  return laying;
}

ComposeTrial FromJson(const Json& json) {
  ComposeTrial trial;
  trial.list = json.at("list").get<std::string>();
  trial.question = json.at("question").get<std::string>();
  trial.arm = json.at("arm").get<std::string>();
  trial.list_tokens = json.at("list_tokens").get<int>();
  trial.tool = json.at("tool").get<std::string>();
  trial.arguments = json.at("arguments").get<std::string>();
  trial.choice_right = json.at("choice_right").get<bool>();
  if (const Json& args = json.at("args_right"); !args.is_null()) {
    trial.args_right = args.get<bool>();
  }
  if (trial.arm != kComposeReference) {
    trial.recipe = json.at("recipe").get<std::string>();
    trial.share = json.at("share").get<double>();
    trial.kl = json.at("kl").get<std::vector<double>>();
    trial.first_top1 = json.at("first_top1").get<bool>();
    if (!(trial.share >= 0 && trial.share <= 1)) {
      throw std::runtime_error("'share' outside 0..1");
    }
    for (const double kl : trial.kl) {
      if (!std::isfinite(kl)) throw std::runtime_error("'kl' isn't finite");
    }
  }
  if (json.contains("laying")) trial.laying = LayingFromJson(json["laying"]);
  return trial;
}

Json WithVersion(Json identity) {
  identity["compose_trial_version"] = kTrialVersion;
  return identity;
}

}  // namespace

Json ComposeTrialToJson(const ComposeTrial& trial) {
  Json json = {{"list", trial.list},
               {"question", trial.question},
               {"arm", trial.arm},
               {"list_tokens", trial.list_tokens},
               {"tool", trial.tool},
               {"arguments", trial.arguments},
               {"choice_right", trial.choice_right},
               {"args_right", nullptr}};
  if (trial.args_right.has_value()) json["args_right"] = *trial.args_right;
  if (trial.arm != kComposeReference) {
    json["recipe"] = trial.recipe;
    json["share"] = trial.share;
    json["kl"] = trial.kl;
    json["first_top1"] = trial.first_top1;
  }
  if (trial.laying.has_value()) json["laying"] = LayingToJson(*trial.laying);
  return json;
}

Result<ComposeTrial> ComposeTrialFromJson(const Json& json,
                                          std::string_view source) {
  try {
    return FromJson(json);
  } catch (const std::exception& error) {
    return CorruptionError(
        std::string(source) + ": not a trial of `nexus bench compose` (" +
        error.what() + "); delete the line to measure it anew");
  }
}

Result<ComposeSetting> ComposeSettingOf(const ComposeLog& log,
                                        std::string_view source) {
  try {
    const Json& json = log.identity();
    ComposeSetting setting;
    setting.model_name = json.at("model_name").get<std::string>();
    setting.model = json.at("model").get<std::string>();
    setting.flash_attention = json.at("flash_attention").get<bool>();
    setting.blocks = json.at("blocks").get<int>();
    setting.samples = json.at("samples").get<int>();
    setting.max_tokens = json.at("max_tokens").get<int>();
    if (setting.blocks < 1) throw std::runtime_error("'blocks' below 1");
    return setting;
  } catch (const std::exception& error) {
    return CorruptionError(std::string(source) +
                           ": line 1 isn't that of a log of `nexus bench "
                           "compose` (" +
                           error.what() + ")");
  }
}

Result<ComposeStudy> ComposeStudyOf(const ComposeLog& log,
                                    std::string_view source) {
  ComposeStudy study;
  NEXUS_ASSIGN_OR_RETURN(study.setting, ComposeSettingOf(log, source));
  study.trials = log.trials();
  return study;
}

Result<ComposeLog> OpenComposeLog(FileSystem& fs, const std::string& path,
                                  Json identity) {
  return ComposeLog::Open(fs, path, WithVersion(std::move(identity)),
                          "comparison");
}

Result<ComposeLog> ReadComposeLog(FileSystem& fs, const std::string& path,
                                  Json identity) {
  if (!fs.Exists(path)) return NotFoundError(path + ": no such file");
  return OpenComposeLog(fs, path, std::move(identity));
}

}  // namespace nexus::engine
