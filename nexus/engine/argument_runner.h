// ArgumentRunner: the call that a model makes for one question and one given
// tool, or for a question and every tool of a list, kept in a log so that an
// evaluation that was stopped goes on where it was.
//
// Greedy, grammar-constrained, the call's preamble forced, one repair round:
// what `nexus ask` does behind its router. A trial is known by everything that
// decides its call (ArgumentTrial::key), so a changed signature or schema runs
// anew and the rest is taken from the log.
#ifndef NEXUS_ENGINE_ARGUMENT_RUNNER_H_
#define NEXUS_ENGINE_ARGUMENT_RUNNER_H_

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "nexus/base/keyed_log.h"
#include "nexus/base/result.h"
#include "nexus/engine/call_generator.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/eval/argument_trial.h"

namespace nexus::engine {

// What must be the same for two trials to be of one evaluation.
Json ArgumentStudyIdentity(const Engine& engine);

struct ArgumentTrialCodec {
  static Json ToJson(const eval::ArgumentTrial& trial) {
    return eval::TrialToJson(trial);
  }
  static Result<eval::ArgumentTrial> FromJson(const Json& json,
                                              std::string_view source) {
    return eval::TrialFromJson(json, source);
  }
  static std::string KeyOf(const eval::ArgumentTrial& trial) {
    return trial.key;
  }
};
using ArgumentLog = KeyedLog<eval::ArgumentTrial, ArgumentTrialCodec>;

// An empty path keeps the trials in memory only. kIncompatible: of another
// model or setting; kCorruption, kInvalidArgument: path and line.
Result<ArgumentLog> OpenArgumentLog(FileSystem& fs, const std::string& path,
                                    const Engine& engine);

// Owned by one thread. Engine and log must outlive it.
class ArgumentRunner {
 public:
  static Result<std::unique_ptr<ArgumentRunner>> Create(const Engine* engine,
                                                        ArgumentLog* log,
                                                        int max_tokens);

  // A prompt that doesn't fit, or a tool that no call can be forced of, is a
  // refused trial; kCancelled and errors of the engine are errors.
  Result<eval::ArgumentTrial> Run(const schema::ToolSchema& tool,
                                  const std::string& question,
                                  eval::ArgumentForm form);

  // The same with the full schemas of all tools in the prompt, as text, and the
  // name for the model to choose: the baseline. `list_choice` is in `tools`.
  Result<eval::ArgumentTrial> RunList(std::span<const schema::ToolSchema> tools,
                                      const std::string& question);

  // Tokens of that prompt, without decoding it.
  Result<int> CountListTokens(std::span<const schema::ToolSchema> tools,
                              const std::string& question) const;

  // Whether the last trial came from the log.
  bool was_known() const { return was_known_; }
  Session& session() { return *session_; }

 private:
  ArgumentRunner() = default;
  std::optional<eval::ArgumentTrial> Find(const std::string& key);
  Result<eval::ArgumentTrial> Keep(eval::ArgumentTrial trial);
  std::string KeyOf(const PromptPlan& plan, const std::string& kind,
                    const std::string& tools) const;
  Status Generate(const schema::ToolSchema& tool, const PromptPlan& plan,
                  eval::ArgumentForm form, std::chrono::nanoseconds started,
                  eval::ArgumentTrial* trial);
  Status CallOutOfList(std::span<const schema::ToolSchema> tools,
                       const std::string& question, const PromptPlan& plan,
                       std::chrono::nanoseconds started,
                       eval::ArgumentTrial* trial);

  const Engine* engine_ = nullptr;
  ArgumentLog* log_ = nullptr;
  int max_tokens_ = 0;
  std::unique_ptr<Session> session_;
  std::unique_ptr<CallGenerator> generator_;
  bool was_known_ = false;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_ARGUMENT_RUNNER_H_
