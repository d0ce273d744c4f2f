// nexus ask: the main job. Route the question, splice the schema, write the
// call, and, when told to, run it.
#include "nexus/engine/ask.h"

#include <unistd.h>

#include <cstdio>

#include "nexus/base/clock.h"
#include "nexus/cli/ask_audit.h"
#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/route_view.h"
#include "nexus/cli/terminal.h"
#include "nexus/serve/answer_generator.h"
#include "nexus/serve/report_json.h"

namespace nexus::cli {
namespace {

struct AskFlags {
  std::string question;
  std::string mode = "schema";
  std::string tool;
  std::string system;
  std::vector<std::string> servers;
  RepairFlags repair;
  int audit = 0;
  int max_tokens = 512;
  double temperature = 0;
  uint32_t seed = 1;
  bool execute = false;
  bool yes = false;
  bool answer = false;
};

void Row(const char* label, const std::string& text) {
  std::printf("%s %s\n",
              Styled(std::string(label) +
                         std::string(std::string_view(label).size() < 8
                                         ? 8 - std::string_view(label).size()
                                         : 0,
                                     ' '),
                     Style::kDim)
                  .c_str(),
              text.c_str());
  std::fflush(stdout);
}

void PrintRoute(const route::RouteDecision& decision) {
  if (decision.candidates.empty()) {
    Row("route", Styled("abstain", Style::kWarn) + "  " + decision.reason);
    return;
  }
  const bool abstained = decision.outcome == route::Outcome::kAbstain;
  Row("route",
      (abstained
           ? Styled("abstain", Style::kWarn)
           : Styled(schema::ToolId(decision.tool(decision.candidates.front())),
                    Style::kBold)) +
          "  (" + GateNumbers(decision) + ")");
  Row("", Styled(decision.reason, Style::kDim));
}

// What reads may be tried on a close call; what writes is run when the router
// is sure, or when the user says so. Servers that annotate nothing may write.
// Empty: it may be run.
std::string WhyNotToRun(const AskFlags& flags,
                        const engine::AskResult& result) {
  if (!flags.tool.empty() || flags.yes ||
      result.decision.outcome == route::Outcome::kRoute ||
      result.tool->annotations.read_only == true) {
    return {};
  }
  return "the router isn't sure of this tool, and " +
         std::string(result.tool->annotations.read_only.has_value()
                         ? "it changes things"
                         : "its server doesn't say that it only reads");
}

void PrintTier(const engine::TierReport& tier) {
  std::string text = Styled(engine::TierName(tier.tier), Style::kGood);
  const int stored = tier.spliced_tokens + tier.restored_tokens;
  if (stored > 0) {
    text += "  " + FormatCount(stored) + " tokens from a " +
            FormatBytes(tier.block_bytes) + " block in " +
            FormatMs(tier.lookup_ms + tier.write_ms);
  }
  if (tier.recomputed_tokens > 0) {
    text += ", " + FormatCount(tier.recomputed_tokens) + " re-decoded in " +
            FormatMs(tier.repair_ms);
  }
  text += (stored > 0 ? ", " : "  ") + FormatCount(tier.prefilled_tokens) +
          " prefilled in " + FormatMs(tier.decode_ms);
  if (tier.reused_tokens > 0) {
    text += ", " + FormatCount(tier.reused_tokens) + " reused";
  }
  Row("tier", text);
  if (tier.tier == engine::Tier::kPrefill) {
    for (const std::string& reason : tier.reasons) {
      Row("", Styled(reason, Style::kDim));
    }
  }
}

Json ResultJson(const AskFlags& flags, const engine::AskResult& result) {
  Json object = {{"question", flags.question}};
  if (flags.tool.empty()) object["route"] = serve::RouteJson(result.decision);
  if (!result.tool.has_value()) {
    object["tool"] = nullptr;
    return object;
  }
  object["tool"] = schema::ToolId(*result.tool);
  object["mode"] = flags.mode;
  object["call"] = {{"name", result.tool->name},
                    {"arguments", result.call.arguments}};
  object["call"].update(serve::CallJson(result.call));
  object["call"]["sampled_tokens"] = result.call.sampled_tokens;
  object["tier"] = serve::TierJson(result.tier);
  object["tokens"] = serve::PlanTokensJson(result.plan);
  object["ms"] = {{"route", result.route_ms},
                  {"plan", result.plan_ms},
                  {"prepare", result.prepare_ms},
                  {"ttft", result.ttft_ms},
                  {"total", result.total_ms}};
  return object;
}

// The model's answer in words, from the question and the tool's result. The
// schema isn't in this context: what the client sends next turn won't hold it
// either.
Result<std::string> Answer(const engine::Engine& engine,
                           engine::Session& session, const AskFlags& flags,
                           std::vector<llm::ChatMessage> messages,
                           bool stream) {
  NEXUS_ASSIGN_OR_RETURN(const engine::PromptPlan plan,
                         engine.planner().PlanAnswer(messages));
  NEXUS_RETURN_IF_ERROR(session.Prepare(plan, {}).status());
  serve::AnswerOptions options;
  options.max_tokens = flags.max_tokens;
  options.temperature = static_cast<float>(flags.temperature);
  options.seed = flags.seed;
  if (stream) {
    options.on_text = [](std::string_view piece,
                         std::span<const llm::LogprobRow>) {
      const std::string shown = Printable(piece);
      std::fwrite(shown.data(), 1, shown.size(), stdout);
      std::fflush(stdout);
    };
  }
  NEXUS_ASSIGN_OR_RETURN(
      serve::GeneratedAnswer answer,
      serve::GenerateAnswer(session, engine.model(), options));
  return std::move(answer.text);
}

// After the answer is out: keep exact cells for the next start.
void KeepVariant(engine::Session& session, const engine::PromptPlan& plan,
                 const schema::ToolSchema& tool) {
  if (const Status kept = session.StoreVariant(plan, tool); !kept.ok()) {
    Note("exact cells not kept: " + kept.message());
  }
}

// What was decoded as text is a sample of its schema: the next answers splice
// it.
Json Learn(engine::Session& session, const engine::AskResult& result,
           bool show) {
  auto learned = session.Learn(result.plan, *result.tool);
  if (!learned.ok()) {
    Note("nothing learned: " + learned.status().message());
    return {{"samples", 0}, {"reason", learned.status().ToString()}};
  }
  if (learned->samples == 0) {
    if (learned->reason.empty()) return nullptr;
    return {{"samples", 0}, {"reason", learned->reason}};
  }
  if (show) {
    Row("learned", "sample " + FormatCount(learned->samples) +
                       " of this schema, a " +
                       FormatBytes(learned->file_bytes) + " block in " +
                       FormatMs(learned->elapsed_ms));
  }
  return {{"samples", learned->samples},
          {"generation", learned->generation},
          {"block_bytes", learned->file_bytes},
          {"ms", learned->elapsed_ms}};
}

int Run(const GlobalOptions& globals, const AskFlags& flags) {
  auto prepare = ParseRepairFlags(flags.repair);
  if (!prepare.ok()) return Fail(prepare.status());
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  if (flags.execute && source->catalog == nullptr) {
    return Fail(InvalidArgumentError(
        "--execute needs --mcp: a registry file has no server to call"));
  }
  if (const Status known = CheckServers(source->tools, flags.servers);
      !known.ok()) {
    return Fail(known);
  }
  auto routing = MakeRouting(globals, source->tools);
  if (!routing.ok()) return Fail(routing.status());
  if (!routing->note.empty()) Note(routing->note);
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  auto session = engine::Session::Create(engine->get());
  if (!session.ok()) return Fail(session.status());
  const CancelOnInterrupt cancel(&(*session)->context());

  std::vector<llm::ChatMessage> messages;
  if (!flags.system.empty()) {
    messages.push_back({.role = "system", .content = flags.system});
  }
  messages.push_back({.role = "user", .content = flags.question});

  const bool show = !globals.json;
  bool first_piece = true;
  engine::AskOptions options;
  options.mode = flags.mode == "ir" ? engine::ArgumentMode::kIr
                                    : engine::ArgumentMode::kSchema;
  options.prepare = *prepare;
  options.forced_tool = flags.tool;
  options.servers = flags.servers;
  options.call.max_tokens = flags.max_tokens;
  options.call.temperature = static_cast<float>(flags.temperature);
  options.call.seed = flags.seed;
  options.arrived_at = Clock::Monotonic().Now();
  if (show) {
    options.on_route = PrintRoute;
    options.on_prepared = [](const schema::ToolSchema&,
                             const engine::TierReport& tier) {
      PrintTier(tier);
    };
    options.call.on_text = [&](std::string_view piece) {
      if (first_piece) {
        std::printf("%s ", Styled("call    ", Style::kDim).c_str());
        first_piece = false;
        while (piece.starts_with(' ')) piece.remove_prefix(1);
      }
      const std::string text = Printable(piece);
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
  }
  engine::Asker asker(engine->get(), session->get(), routing->router.get());
  auto result = asker.Ask(messages, options);
  if (show && !first_piece) std::printf("\n");
  if (!result.ok()) return Fail(result.status());

  // Before anything else comes into the session.
  const engine::AuditRequest audited = engine::AuditRequestFor(
      **session, result->plan, result->tier, prepare->budget);

  Json object = ResultJson(flags, *result);
  if (!result->tool.has_value()) {
    if (globals.json) {
      PrintJson(object);
    } else {
      Row("", "no tool fits this question; --tool NAME forces one");
      std::printf("\n%s", CandidateTable(result->decision).c_str());
    }
    return kExitAbstained;
  }
  if (show) {
    Row("ttft",
        FormatMs(result->ttft_ms) + "  (route " + FormatMs(result->route_ms) +
            ", prompt " + FormatMs(result->plan_ms + result->prepare_ms) +
            "), all of it " + FormatMs(result->total_ms) + ", " +
            FormatCount(result->call.sampled_tokens) + " tokens sampled");
    if (!result->call.valid) {
      Row("invalid", Styled(result->call.invalid_reason, Style::kBad));
    }
  }

  int code = result->call.valid ? kExitOk : kExitToolError;
  const std::string not_run =
      flags.execute ? WhyNotToRun(flags, *result) : std::string();
  if (!not_run.empty() && result->call.valid) {
    code = kExitAbstained;
    object["not_run"] = not_run;
    if (show) {
      Row("not run", Styled(not_run, Style::kBad));
      Row("", "--yes runs it all the same, --tool NAME another one");
      std::printf("\n%s", CandidateTable(result->decision).c_str());
    }
  } else if (flags.execute && result->call.valid) {
    const auto start = Clock::Monotonic().Now();
    auto called = source->catalog->Call(*result->tool, result->call.arguments,
                                        {.cancel = &Interrupted()});
    const double call_ms = Milliseconds(Clock::Monotonic().Now() - start);
    if (!called.ok()) {
      if (globals.json) {
        object["result"] = {{"error", called.status().ToString()}};
        PrintJson(object);
      }
      return Fail(called.status());
    }
    object["result"] = {{"is_error", called->is_error},
                        {"text", called->text},
                        {"ms", call_ms}};
    if (!called->structured.is_null()) {
      object["result"]["structured"] = called->structured;
    }
    if (called->is_error) code = kExitToolError;
    if (show) {
      Row("result",
          Styled(called->is_error ? "the tool reports an error" : "ok",
                 called->is_error ? Style::kBad : Style::kGood) +
              "  " + FormatMs(call_ms));
      const std::string text = Printable(called->text);
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::printf("\n");
    }
    if (flags.answer && !called->is_error) {
      // The answer's prompt takes the block's place in the context.
      if (flags.mode == "schema") {
        object["learned"] = Learn(**session, *result, show);
      }
      messages.push_back(
          {.role = "assistant",
           .tool_calls = {{.id = "call_1",
                           .name = result->tool->name,
                           .arguments = DumpJson(result->call.arguments)}}});
      messages.push_back({.role = "tool",
                          .content = called->text,
                          .tool_call_id = "call_1",
                          .tool_name = result->tool->name});
      if (show) std::printf("%s ", Styled("answer  ", Style::kDim).c_str());
      auto answer =
          Answer(**engine, **session, flags, std::move(messages), show);
      if (show) std::printf("\n");
      if (answer.ok()) {
        object["answer"] = *answer;
      } else {
        // The tool has run: what it returned must not be lost with the answer.
        object["answer_error"] = answer.status().ToString();
        code = Fail(answer.status());
      }
    }
  }
  if ((*engine)->store() != nullptr &&
      engine::CountTowardsAudit(*(*engine)->store(), result->tier,
                                flags.audit)) {
    object["audit"] = AuditAnswer(**engine, audited, show);
  }
  if (flags.mode == "schema" && !object.contains("learned")) {
    object["learned"] = Learn(**session, *result, show);
  }
  if (globals.json) PrintJson(object);
  if (!flags.answer && flags.mode == "schema" && flags.repair.tier == "auto" &&
      result->tier.tier == engine::Tier::kPrefill) {
    KeepVariant(**session, result->plan, *result->tool);
  }
  return Interrupted() ? kExitInterrupted : code;
}

}  // namespace

void AddAskCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "ask", "Route a question to a tool, write the call, and run it");
  auto flags = std::make_shared<AskFlags>();
  command->add_option("question", flags->question, "What you want")->required();
  AddToolFlags(command, globals.get());
  command->add_flag("-x,--execute", flags->execute,
                    "Call the tool and show its result");
  command
      ->add_flag("-y,--yes", flags->yes,
                 "Run a tool that may change things also when the router isn't "
                 "sure that it is the right one")
      ->needs("--execute");
  command
      ->add_flag("--answer", flags->answer,
                 "Then let the model answer in words from the result")
      ->needs("--execute");
  command
      ->add_option("--mode", flags->mode,
                   "What the model sees of the tool: the full schema (spliced) "
                   "or its IR signature (about 20 tokens)")
      ->check(CLI::IsMember({"schema", "ir"}))
      ->capture_default_str();
  command->add_option("--tool", flags->tool,
                      "Skip routing and call this tool (server/name)");
  command->add_option("--server", flags->servers,
                      "Route only among this server's tools");
  command->add_option("--system", flags->system, "System prompt");
  command
      ->add_option("--audit", flags->audit,
                   "Check one spliced answer in N against full prefill, after "
                   "it was given; 0: none")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_flag(
      "!--no-learn", globals->learn,
      "Don't fold what is decoded as text into the stored blocks");
  AddTierFlag(command, &flags->repair);
  AddRepairFlags(command, &flags->repair);
  command
      ->add_option("--max-tokens", flags->max_tokens,
                   "Longest call or answer, in tokens")
      ->check(CLI::Range(16, 1 << 16))
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->temperature,
                   "0 takes the most likely token")
      ->check(FiniteRange(0, 10))
      ->capture_default_str();
  command
      ->add_option("--seed", flags->seed, "Of the sampling above temperature 0")
      ->capture_default_str();
  AddModelFlags(command, globals.get());
  AddRouteFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
