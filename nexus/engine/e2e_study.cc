#include "nexus/engine/e2e_study.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "nexus/eval/tool_pool.h"

namespace nexus::engine {
namespace {

using eval::ArgumentTask;
using eval::ArgumentTrial;

class Study {
 public:
  Study(const Engine& engine, ArgumentRunner& runner, const E2eOptions& options)
      : engine_(engine), runner_(runner), options_(options) {}

  Result<E2eStudy> Run(std::vector<schema::ToolSchema> tools,
                       std::vector<ArgumentTask> tasks,
                       const eval::RouteStudyModels& models);

 private:
  Status CountTokens();
  Status RunTrial(const eval::RouteTrial& routed);
  Status RunBaseline(const ArgumentTask& task, const eval::Gold& gold,
                     const eval::LabelledQuery& query, E2eTrial* trial);
  Status Step();
  // Of the list's prompt, without any tool.
  Result<int> FrameTokens(const std::string& question) const {
    const schema::ToolSchema& any = route_.registry->tools().front();
    NEXUS_ASSIGN_OR_RETURN(const int with_one,
                           runner_.CountListTokens({&any, 1}, question));
    return with_one - schema_tokens_.front();
  }

  E2eCall Judge(const ArgumentTask& task, ArgumentTrial trial,
                const schema::ToolSchema& tool, bool tool_right) const {
    E2eCall call;
    call.tool_right = tool_right;
    call.exact = tool_right && eval::JudgeTrial(task, trial, tool).exact();
    call.trial = std::move(trial);
    return call;
  }

  const Engine& engine_;
  ArgumentRunner& runner_;
  const E2eOptions& options_;
  eval::RouteStudy route_;
  std::optional<eval::PoolMaker> pools_;
  std::vector<int> schema_tokens_;  // [tool]
  E2eStudy study_;
  ArgumentStudyProgress progress_;
  int baselines_ = 0;
  bool was_known_ = true;  // every call of the running query
};

Status Study::Step() {
  if (options_.cancel != nullptr && options_.cancel->load()) {
    return CancelledError("interrupted after " +
                          std::to_string(progress_.done) + " of " +
                          std::to_string(progress_.total) + " queries");
  }
  if (options_.progress) options_.progress(progress_);
  return Status::Ok();
}

Status Study::CountTokens() {
  double sum = 0;
  for (const schema::ToolSchema& tool : route_.registry->tools()) {
    NEXUS_ASSIGN_OR_RETURN(const auto tokens,
                           engine_.planner().ListToolTokens(tool));
    schema_tokens_.push_back(static_cast<int>(tokens.size()));
    sum += schema_tokens_.back();
  }
  study_.schema_tokens_mean = sum / static_cast<double>(schema_tokens_.size());
  NEXUS_ASSIGN_OR_RETURN(const int bare,
                         FrameTokens(study_.tasks.front().query.text));
  study_.overflow_tools =
      static_cast<int>(std::max(0, study_.context_tokens - bare) /
                       std::max(1.0, study_.schema_tokens_mean)) +
      1;
  return Status::Ok();
}

Status Study::RunBaseline(const ArgumentTask& task, const eval::Gold& gold,
                          const eval::LabelledQuery& query, E2eTrial* trial) {
  eval::PoolRequest request;
  request.kind = options_.route.pool;
  request.size = route_.points.front().size;
  std::vector<int> pool = pools_->Make(query, gold, request);
  // Nobody could list two tools of one name; the right one stays.
  std::stable_partition(pool.begin(), pool.end(),
                        [&](int tool) { return gold.IsRight(tool); });
  std::set<std::string> names;
  std::erase_if(pool, [&](int tool) {
    return !names.insert(route_.registry->tool(tool).name).second;
  });
  std::sort(pool.begin(), pool.end());
  NEXUS_ASSIGN_OR_RETURN(trial->list_tokens, FrameTokens(task.query.text));
  for (const int tool : pool) {
    trial->list_tokens += schema_tokens_[static_cast<size_t>(tool)];
  }
  trial->list_fits = trial->list_tokens < study_.context_tokens;
  if (!trial->list_fits || baselines_ >= options_.baseline_queries) {
    return Status::Ok();
  }
  ++baselines_;
  std::vector<schema::ToolSchema> listed;
  for (const int tool : pool) listed.push_back(route_.registry->tool(tool));
  NEXUS_ASSIGN_OR_RETURN(ArgumentTrial call,
                         runner_.RunList(listed, task.query.text));
  progress_.generated += runner_.was_known() ? 0 : 1;
  const int choice = call.list_choice;
  const bool right =
      choice >= 0 && gold.IsRight(pool[static_cast<size_t>(choice)]);
  // A refused call has no choice; any tool will do to judge nothing by.
  trial->list = Judge(task, std::move(call),
                      listed[static_cast<size_t>(std::max(choice, 0))], right);
  return Status::Ok();
}

Status Study::RunTrial(const eval::RouteTrial& routed) {
  const auto query = static_cast<size_t>(routed.query);
  const eval::Gold& gold = route_.labels.gold[query];
  const eval::LabelledQuery& labelled = route_.labels.queries[query];
  E2eTrial trial;
  trial.task = std::stoi(labelled.id);
  trial.pool_tools = routed.pool_tools;
  trial.outcome = routed.outcome;
  const ArgumentTask& task = study_.tasks[static_cast<size_t>(trial.task)];
  if (routed.outcome != route::Outcome::kAbstain && routed.chosen >= 0) {
    trial.chosen = routed.chosen;
    trial.tool_right = gold.IsRight(routed.chosen);
    const schema::ToolSchema& tool = route_.registry->tool(routed.chosen);
    for (const eval::ArgumentForm form : options_.forms) {
      NEXUS_ASSIGN_OR_RETURN(ArgumentTrial call,
                             runner_.Run(tool, task.query.text, form));
      was_known_ &= runner_.was_known();
      trial.calls.push_back(
          Judge(task, std::move(call), tool, trial.tool_right));
    }
  }
  NEXUS_RETURN_IF_ERROR(RunBaseline(task, gold, labelled, &trial));
  study_.trials.push_back(std::move(trial));
  return Status::Ok();
}

Result<E2eStudy> Study::Run(std::vector<schema::ToolSchema> tools,
                            std::vector<ArgumentTask> tasks,
                            const eval::RouteStudyModels& models) {
  study_.forms = options_.forms;
  study_.context_tokens = engine_.options().context_tokens;
  study_.registry_tools = static_cast<int>(tools.size());
  std::vector<eval::LabelledQuery> queries;
  for (size_t i = 0; i < tasks.size(); ++i) {
    queries.push_back(tasks[i].query);
    // The way back from the router's list, which may leave queries out.
    queries.back().id = std::to_string(i);
    if (queries.back().gold.empty()) {
      queries.back().gold = {queries.back().calls.front().tool};
    }
  }
  study_.tasks = std::move(tasks);
  NEXUS_ASSIGN_OR_RETURN(
      route_, eval::RunRouteStudy(std::move(tools), std::move(queries), models,
                                  options_.route));
  study_.warnings = route_.warnings;
  pools_.emplace(*route_.registry, eval::NearestByBm25(*route_.registry));
  NEXUS_RETURN_IF_ERROR(CountTokens());
  const std::vector<eval::RouteTrial>& routed = route_.points.front().trials;
  progress_.total = static_cast<int>(routed.size());
  for (const eval::RouteTrial& trial : routed) {
    NEXUS_RETURN_IF_ERROR(Step());
    was_known_ = true;
    NEXUS_RETURN_IF_ERROR(RunTrial(trial));
    ++progress_.done;
    progress_.generated += was_known_ ? 0 : 1;
  }
  return std::move(study_);
}

}  // namespace

Result<E2eStudy> RunE2eStudy(const Engine& engine, ArgumentRunner& runner,
                             std::vector<schema::ToolSchema> tools,
                             std::vector<ArgumentTask> tasks,
                             const eval::RouteStudyModels& models,
                             const E2eOptions& options) {
  return Study(engine, runner, options)
      .Run(std::move(tools), std::move(tasks), models);
}

}  // namespace nexus::engine
