#include "nexus/engine/ttft_bench.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/median.h"
#include "nexus/engine/bench_text.h"
#include "nexus/engine/call_generator.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/engine/fidelity.h"

namespace nexus::engine {
namespace {

using llm::Token;

Result<int> BlockTokenCount(const Engine& engine,
                            const schema::ToolSchema& tool) {
  NEXUS_ASSIGN_OR_RETURN(
      const std::vector<Token> tokens,
      engine.planner().BlockTokens({&tool, 1}, ArgumentMode::kSchema));
  return static_cast<int>(tokens.size());
}

Result<schema::ToolSchema> ChooseTool(const Engine& engine,
                                      const TtftBenchOptions& options) {
  const schema::ToolSchema* best = nullptr;
  int best_distance = 0;
  for (const schema::ToolSchema& tool : options.tools) {
    NEXUS_ASSIGN_OR_RETURN(const int count, BlockTokenCount(engine, tool));
    const int distance = std::abs(count - options.schema_tokens);
    if (best == nullptr || distance < best_distance) {
      best = &tool;
      best_distance = distance;
    }
  }
  if (best != nullptr && best_distance * 4 <= options.schema_tokens) {
    return *best;
  }
  return GeneratedTool(engine, options.schema_tokens);
}

// A plan of exactly the wished token counts: history cut to n_past, and the
// question's text, but not its frame, cut to fit.
Result<PromptPlan> MakePlan(const Engine& engine,
                            const TtftBenchOptions& options,
                            std::span<const schema::ToolSchema> tools,
                            const std::string& call_tool) {
  const std::vector<llm::ChatMessage> messages = {
      {.role = "user",
       .content = "Here are my notes.\n\n" + BenchProse(options.past_tokens)},
      {.role = "assistant", .content = "Thank you, I have read them."},
      {.role = "user", .content = ""}};
  NEXUS_ASSIGN_OR_RETURN(
      PromptPlan plan, engine.planner().PlanCall(
                           messages, tools, ArgumentMode::kSchema, call_tool));
  plan.history.resize(
      std::min(plan.history.size(), static_cast<size_t>(options.past_tokens)));
  const schema::SchemaFrame& frame = engine.planner().frame();
  NEXUS_ASSIGN_OR_RETURN(std::vector<Token> head,
                         engine.model().Tokenize(frame.user_prefix));
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> tail,
                         engine.model().Tokenize(frame.user_suffix));
  NEXUS_ASSIGN_OR_RETURN(
      const std::vector<Token> question,
      engine.model().Tokenize(BenchQuestion(options.query_tokens)));
  const size_t room = static_cast<size_t>(
      std::max(0, options.query_tokens - static_cast<int>(head.size()) -
                      static_cast<int>(tail.size())));
  plan.user = std::move(head);
  plan.user.insert(plan.user.end(), question.begin(),
                   question.begin() + static_cast<std::ptrdiff_t>(
                                          std::min(room, question.size())));
  plan.user.insert(plan.user.end(), tail.begin(), tail.end());
  return plan;
}

// Decodes the history, then times from there to the first sampled token.
class Arm {
 public:
  Arm(Session* session, const PromptPlan* plan,
      const CallConstraint* constraint, const llm::Model* model)
      : session_(session),
        plan_(plan),
        constraint_(constraint),
        model_(model) {}

  Status SetUp() {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(0));
    return session_->Append(plan_->history, llm::Logits::kNone);
  }

  // Leaves the session behind the preamble, its logits at hand.
  Result<TierReport> Run(const PrepareOptions& options, size_t keep_tokens,
                         std::vector<double>* times_ms) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(keep_tokens));
    session_->ForgetBlocks();  // as a session that meets the tool first
    const auto start = Clock::Monotonic().Now();
    NEXUS_ASSIGN_OR_RETURN(TierReport report,
                           session_->Prepare(*plan_, options));
    NEXUS_ASSIGN_OR_RETURN(
        auto sampler,
        llm::Sampler::Create(*model_, {.grammar = constraint_->grammar}));
    NEXUS_RETURN_IF_ERROR(sampler->Sample(session_->logits()).status());
    times_ms->push_back(Milliseconds(Clock::Monotonic().Now() - start));
    return report;
  }

 private:
  Session* session_;
  const PromptPlan* plan_;
  const CallConstraint* constraint_;
  const llm::Model* model_;
};

Status MustBe(Tier expected, const TierReport& report) {
  if (report.tier == expected) return Status::Ok();
  std::string why;
  for (const std::string& reason : report.reasons) why += "; " + reason;
  return UnimplementedError("bench: asked for tier " +
                            std::string(TierName(expected)) + ", got " +
                            std::string(TierName(report.tier)) + why);
}

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total_pages = 0;
  size_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Taken at the first splice: later ones reuse the staging buffer. The block is
// held, so its mapped pages count; cells and compute buffers were touched by
// the prefill before.
Result<size_t> MemoryOfSplice(const Engine& engine, Session& session,
                              const PromptPlan& plan,
                              const PrepareOptions& options) {
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(plan.history.size()));
  const size_t before = ResidentBytes();
  NEXUS_ASSIGN_OR_RETURN(const auto block, engine.FindSplice(plan.block));
  NEXUS_ASSIGN_OR_RETURN(const TierReport report,
                         session.Prepare(plan, options));
  NEXUS_RETURN_IF_ERROR(MustBe(Tier::kSplice, report));
  const size_t after = ResidentBytes();
  // Leave the session as the prefill left it.
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(plan.history.size()));
  NEXUS_RETURN_IF_ERROR(
      session.Prepare(plan, {.tier = Tier::kPrefill}).status());
  return after > before ? after - before : 0;
}

// KL of the splice arm, and of full prefill in other batches as noise floor.
Status MeasureFidelity(Session& session, const PromptPlan& plan,
                       const TtftBenchOptions& options,
                       TtftBenchResult* result) {
  const size_t past = plan.history.size();
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(past));
  NEXUS_RETURN_IF_ERROR(
      session.Prepare(plan, {.tier = Tier::kPrefill}).status());
  NEXUS_ASSIGN_OR_RETURN(const FidelityReference reference,
                         GenerateReference(session, options.fidelity_tokens));

  NEXUS_RETURN_IF_ERROR(session.TruncateTo(past));
  NEXUS_RETURN_IF_ERROR(session.Prepare(plan, options.splice).status());
  NEXUS_ASSIGN_OR_RETURN(const FidelityStats trial,
                         CompareWithReference(session, reference));

  NEXUS_RETURN_IF_ERROR(session.TruncateTo(past));
  NEXUS_RETURN_IF_ERROR(PrefillInOddPieces(session, plan));
  NEXUS_ASSIGN_OR_RETURN(const FidelityStats noise,
                         CompareWithReference(session, reference));

  result->kl_mean = trial.KlMean();
  result->top1 = trial.Top1();
  result->kl_positions = static_cast<int>(trial.kl.size());
  result->kl_noise_floor = noise.KlMean();
  return Status::Ok();
}

}  // namespace

Result<schema::ToolSchema> GeneratedTool(const Engine& engine,
                                         int block_tokens) {
  constexpr std::array<std::string_view, 8> kSubjects = {
      "berth", "vessel", "cargo",   "pilot",
      "tide",  "crew",   "customs", "mooring"};
  constexpr std::array<std::string_view, 6> kAspects = {
      "name", "date", "length", "status", "limit", "note"};
  schema::ToolSchema tool;
  tool.name = "update_port_record";
  tool.description =
      "Updates the record of one call at a port. Fields that are left out keep "
      "their present values.";
  tool.parameters = {{"type", "object"}, {"properties", Json::object()}};
  for (size_t i = 0; i < kSubjects.size() * kAspects.size(); ++i) {
    const std::string subject(kSubjects[i % kSubjects.size()]);
    const std::string aspect(
        kAspects[(i / kSubjects.size()) % kAspects.size()]);
    const bool number = aspect == "length" || aspect == "limit";
    schema::ToolSchema longer = tool;
    longer.parameters["properties"][subject + "_" + aspect] = {
        {"type", number ? "number" : "string"},
        {"description",
         "The " + aspect + " of the " + subject +
             (number ? ", in metres" : " as the office writes it")}};
    NEXUS_ASSIGN_OR_RETURN(const int count, BlockTokenCount(engine, longer));
    if (count > block_tokens) break;
    tool = std::move(longer);
  }
  return tool;
}

Result<TtftBenchResult> RunTtftBench(const Engine& engine,
                                     const TtftBenchOptions& options) {
  const auto step = [&](const std::string& text) {
    if (options.progress) options.progress(text);
  };
  const auto cancelled = [&] {
    return options.cancel != nullptr && options.cancel->load();
  };
  NEXUS_RETURN_IF_ERROR(engine.splice_status());
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  NEXUS_ASSIGN_OR_RETURN(const schema::ToolSchema tool,
                         ChooseTool(engine, options));
  NEXUS_ASSIGN_OR_RETURN(const PromptPlan plan,
                         MakePlan(engine, options, {&tool, 1}, tool.name));
  NEXUS_ASSIGN_OR_RETURN(
      const auto constraint,
      MakeConstraint(engine.model(), tool, plan.space_before_arguments));
  step("compiling the block of " + schema::ToolId(tool));
  NEXUS_RETURN_IF_ERROR(
      CompileTools(engine, {&tool, 1}, {.contexts = options.contexts})
          .status());

  TtftBenchResult result;
  result.tool = schema::ToolId(tool);
  result.past_tokens = static_cast<int>(plan.history.size());
  result.schema_tokens = static_cast<int>(plan.block.size());
  result.query_tokens = static_cast<int>(plan.user.size());
  result.preamble_tokens = static_cast<int>(plan.preamble.size());
  result.runs = options.runs;

  const int cells =
      static_cast<int>(plan.TokenCount()) + options.fidelity_tokens + 64;
  NEXUS_ASSIGN_OR_RETURN(auto session, Session::Create(&engine, cells));
  Arm arm(session.get(), &plan, constraint.get(), &engine.model());
  step("decoding " + std::to_string(plan.history.size()) +
       " tokens of history");
  NEXUS_RETURN_IF_ERROR(arm.SetUp());

  // Full prefill may be faster with the other attention setting; it is compared
  // at its best.
  NEXUS_ASSIGN_OR_RETURN(auto other, Session::Create(&engine, cells));
  const bool flash = engine.attention().flash_attention;
  NEXUS_RETURN_IF_ERROR(other->UseFlashAttention(!flash));
  Arm other_arm(other.get(), &plan, constraint.get(), &engine.model());
  NEXUS_RETURN_IF_ERROR(other_arm.SetUp());

  PrepareOptions splice = options.splice;
  splice.tier = Tier::kSplice;
  const size_t past = plan.history.size();
  std::vector<double> prefill, other_prefill, exact, spliced;
  std::vector<double> lookup, write, repair, decode;
  for (int run = -1; run < options.runs; ++run) {
    if (cancelled()) return CancelledError("interrupted");
    // Run -1 warms caches up and isn't counted.
    step(run < 0 ? "warming up"
                 : "run " + std::to_string(run + 1) + " of " +
                       std::to_string(options.runs));
    NEXUS_RETURN_IF_ERROR(
        arm.Run({.tier = Tier::kPrefill}, past, &prefill).status());
    if (run < 0) {
      NEXUS_ASSIGN_OR_RETURN(result.added_bytes,
                             MemoryOfSplice(engine, *session, plan, splice));
    }
    NEXUS_ASSIGN_OR_RETURN(TierReport report,
                           arm.Run({.tier = Tier::kExactPrefix},
                                   past + plan.block.size(), &exact));
    NEXUS_RETURN_IF_ERROR(MustBe(Tier::kExactPrefix, report));
    NEXUS_ASSIGN_OR_RETURN(report, arm.Run(splice, past, &spliced));
    NEXUS_RETURN_IF_ERROR(MustBe(Tier::kSplice, report));
    NEXUS_RETURN_IF_ERROR(
        other_arm.Run({.tier = Tier::kPrefill}, past, &other_prefill).status());
    if (run < 0) {
      for (auto* times : {&prefill, &other_prefill, &exact, &spliced}) {
        times->clear();
      }
      continue;
    }
    lookup.push_back(report.lookup_ms);
    write.push_back(report.write_ms);
    repair.push_back(report.repair_ms);
    decode.push_back(report.decode_ms);
    result.recompute_share = report.recompute_share;
    result.block_bytes = report.block_bytes;
    result.staging_bytes = report.staging_bytes;
  }
  const bool other_faster = Median(other_prefill) < Median(prefill);
  result.prefill_ms = Median(other_faster ? other_prefill : prefill);
  result.prefill_setting = (other_faster ? !flash : flash)
                               ? "flash attention on"
                               : "flash attention off";
  result.exact_prefix_ms = Median(exact);
  result.splice_ms = Median(spliced);
  result.lookup_ms = Median(lookup);
  result.write_ms = Median(write);
  result.repair_ms = Median(repair);
  result.decode_ms = Median(decode);

  if (options.fidelity_tokens > 0) {
    step("measuring fidelity");
    TtftBenchOptions with_tier = options;
    with_tier.splice = splice;
    NEXUS_RETURN_IF_ERROR(MeasureFidelity(*session, plan, with_tier, &result));
  }

  if (options.all_schemas_runs > 0 && !options.tools.empty()) {
    NEXUS_ASSIGN_OR_RETURN(const PromptPlan all,
                           MakePlan(engine, options, options.tools, tool.name));
    result.all_schemas_tokens = static_cast<int>(all.block.size());
    result.tool_count = static_cast<int>(options.tools.size());
    NEXUS_ASSIGN_OR_RETURN(
        auto wide,
        Session::Create(&engine, static_cast<int>(all.TokenCount()) + 64));
    NEXUS_RETURN_IF_ERROR(
        wide->UseFlashAttention(other_faster ? !flash : flash));
    Arm wide_arm(wide.get(), &all, constraint.get(), &engine.model());
    NEXUS_RETURN_IF_ERROR(wide_arm.SetUp());
    std::vector<double> times;
    for (int run = 0; run < options.all_schemas_runs; ++run) {
      if (cancelled()) return CancelledError("interrupted");
      step("all " + std::to_string(options.tools.size()) + " schemas, " +
           std::to_string(all.block.size()) + " tokens, run " +
           std::to_string(run + 1));
      NEXUS_RETURN_IF_ERROR(
          wide_arm.Run({.tier = Tier::kPrefill}, past, &times).status());
    }
    result.all_schemas_ms = Median(times);
    result.all_schemas_runs = options.all_schemas_runs;
  }
  return result;
}

}  // namespace nexus::engine
