// ComposeTrial: one call out of a list by one arm, as it is kept on disk with
// all that the summary needs, so that hours of `nexus bench compose` survive a
// Ctrl-C and can be spread over sessions and machines.
#ifndef NEXUS_ENGINE_COMPOSE_TRIAL_H_
#define NEXUS_ENGINE_COMPOSE_TRIAL_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/keyed_log.h"
#include "nexus/base/result.h"

namespace nexus::engine {

inline constexpr std::string_view kComposeReference = "prefill";

// How the list came into the context.
struct ComposeLaying {
  double ms = 0;
  int spliced = 0;                 // tokens
  int recomputed = 0;              // tokens of the blocks, decoded again
  std::vector<std::string> notes;  // why a splice wasn't one
};

struct ComposeTrial {
  std::string list;      // hash of its tools' texts, in order
  std::string question;  // hash of it and of its right answers
  std::string arm;       // ComposeArm::name, or kComposeReference
  // Of the blocks; empty: the list was decoded as text.
  std::string recipe;
  double share = 0;     // decoded again of each block, as asked for
  int list_tokens = 0;  // everything up to the list's end
  std::string tool;     // that was called
  std::string arguments;
  bool choice_right = false;
  std::optional<bool> args_right;  // unset: the right ones aren't known
  // Against the reference, at its own sampled positions; the first is the
  // name's. Empty for the reference.
  std::vector<double> kl;
  bool first_top1 = false;
  // Of the first question after the list was laid down.
  std::optional<ComposeLaying> laying;

  // What pairs an arm with its reference.
  std::string Pair() const { return list + "|" + question; }
  std::string Key() const { return Pair() + "|" + arm; }
};

Json ComposeTrialToJson(const ComposeTrial& trial);
// kCorruption names `source` and what is wrong.
Result<ComposeTrial> ComposeTrialFromJson(const Json& json,
                                          std::string_view source);

struct ComposeTrialCodec {
  static Json ToJson(const ComposeTrial& trial) {
    return ComposeTrialToJson(trial);
  }
  static Result<ComposeTrial> FromJson(const Json& json,
                                       std::string_view source) {
    return ComposeTrialFromJson(json, source);
  }
  static std::string KeyOf(const ComposeTrial& trial) { return trial.Key(); }
};
using ComposeLog = KeyedLog<ComposeTrial, ComposeTrialCodec>;
using ComposeTrials = std::map<std::string, ComposeTrial>;  // by Key()

// What a log's first line says that reports and profiles need.
struct ComposeSetting {
  std::string model_name;
  std::string model;  // digest of its fingerprint
  bool flash_attention = false;
  int blocks = 0;
  int samples = 0;
  int max_tokens = 0;  // of the arguments
};
// kCorruption names `source` and the field.
Result<ComposeSetting> ComposeSettingOf(const ComposeLog& log,
                                        std::string_view source);

// What one log holds.
struct ComposeStudy {
  ComposeSetting setting;
  ComposeTrials trials;
};
// Errors as of ComposeSettingOf.
Result<ComposeStudy> ComposeStudyOf(const ComposeLog& log,
                                    std::string_view source);

// An empty path keeps the trials in memory only. `identity` is ComposeIdentity
// (compose_bench.h) or some fields of it. kIncompatible: the file holds trials
// of another one, with the first field that differs and both values.
// kCorruption, kInvalidArgument: path and line.
Result<ComposeLog> OpenComposeLog(FileSystem& fs, const std::string& path,
                                  Json identity);

// The same of a file that must be there; kNotFound.
Result<ComposeLog> ReadComposeLog(FileSystem& fs, const std::string& path,
                                  Json identity);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSE_TRIAL_H_
