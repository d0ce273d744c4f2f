// nexus route: which tool, how sure, and why.
#include <cstdio>

#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/route_view.h"
#include "nexus/cli/terminal.h"
#include "nexus/serve/report_json.h"

namespace nexus::cli {

std::string GateNumbers(const route::RouteDecision& decision) {
  const std::string& rule = decision.rule;
  // What stands in margin and threshold depends on who decided.
  const char* format = "cosine %.3f";
  if (rule.starts_with("head") || rule.starts_with("pair-head")) {
    format = "cosine %.3f, chance %.3f, needed %.3f";
  } else if (rule.starts_with("pair-odds")) {
    format = "cosine %.3f, log odds %.2f, needed %.2f";
  } else if (rule == "margin" || rule == "close-call" ||
             rule == "disagreement") {
    format = "cosine %.3f, margin %.4f, tau %.4f";
  } else if (rule == "bm25-margin") {
    format = "cosine %.3f, lead in words %.3f, needed %.3f";
  }
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, format,
                static_cast<double>(decision.candidates.front().dense),
                static_cast<double>(decision.margin),
                static_cast<double>(decision.threshold));
  return numbers;
}

std::string CandidateTable(const route::RouteDecision& decision) {
  if (decision.candidates.empty()) return {};
  Table table({"", "tool", "cosine", "BM25", "fused", "purpose"});
  char number[3][32];
  int rank = 0;
  for (const route::Candidate& candidate : decision.candidates) {
    const schema::ToolSchema& tool = decision.tool(candidate);
    std::snprintf(number[0], sizeof number[0], "%.4f",
                  static_cast<double>(candidate.dense));
    std::snprintf(number[1], sizeof number[1], "%.2f",
                  static_cast<double>(candidate.bm25));
    std::snprintf(number[2], sizeof number[2], "%.4f",
                  static_cast<double>(candidate.score));
    table.AddRow({std::to_string(++rank),
                  schema::ToolId(tool) + (candidate.exact_name ? " *" : ""),
                  number[0], number[1], number[2], tool.description});
  }
  return table.Render();
}

std::string DecisionText(const route::RouteDecision& decision) {
  const bool routed = decision.outcome == route::Outcome::kRoute;
  std::string text = Styled(route::OutcomeName(decision.outcome),
                            routed ? Style::kGood : Style::kWarn) +
                     "  " + decision.reason + "\n\n" + CandidateTable(decision);
  char line[160];
  std::snprintf(line, sizeof line,
                "\nembed %.1f ms, scan %.1f us, BM25 %.1f us, gate %.1f us\n",
                decision.timings.embed_us / 1000, decision.timings.scan_us,
                decision.timings.bm25_us, decision.timings.gate_us);
  return text + line;
}

namespace {

int Run(const GlobalOptions& globals, const std::string& query,
        const route::RouteOptions& options) {
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  if (const Status known = CheckServers(source->tools, options.servers);
      !known.ok()) {
    return Fail(known);
  }
  auto routing = MakeRouting(globals, std::move(source->tools));
  if (!routing.ok()) return Fail(routing.status());
  if (!routing->note.empty()) Note(routing->note);
  auto decision = routing->router->Route(query, options);
  if (!decision.ok()) return Fail(decision.status());
  if (globals.json) {
    Json object = {{"query", query},
                   {"tools", routing->router->index()->tools().size()}};
    object.update(serve::RouteJson(*decision));
    PrintJson(object);
  } else {
    std::printf("%s", DecisionText(*decision).c_str());
  }
  return decision->outcome == route::Outcome::kAbstain ? kExitAbstained
                                                       : kExitOk;
}

}  // namespace

void AddRouteCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "route", "Show which tool a question goes to, with scores and reason");
  auto query = std::make_shared<std::string>();
  auto options = std::make_shared<route::RouteOptions>();
  command->add_option("question", *query, "What the user wants")->required();
  AddToolFlags(command, globals.get());
  AddRouteFlags(command, globals.get());
  command->add_option("--top", options->top_k, "Candidates to show")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--server", options->servers,
                      "Only tools of this server; may be given several times");
  command
      ->add_option("--threads", globals->threads,
                   "Threads for the encoder; 0: one per core")
      ->check(CLI::Range(0, 1024));
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return Run(*globals, *query, *options); }; });
}

}  // namespace nexus::cli
