// nexus doctor: what is on, what is off, and why, on this machine.
#include <cstdio>
#include <thread>

#include "nexus/base/clock.h"
#include "nexus/base/file_system.h"
#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/pull/model_catalog.h"
#include "nexus/simd/int8_scan.h"

namespace nexus::cli {
namespace {

enum class State { kOn, kOff, kProblem };

struct Finding {
  std::string part;
  State state;
  std::string text;
};

std::string_view StateName(State state) {
  switch (state) {
    case State::kOn:
      return "on";
    case State::kOff:
      return "off";
    case State::kProblem:
      return "problem";
  }
  return "";
}

class Report {
 public:
  void Add(std::string part, State state, std::string text) {
    findings_.push_back({std::move(part), state, std::move(text)});
  }
  bool HasProblem() const {
    for (const Finding& finding : findings_) {
      if (finding.state == State::kProblem) return true;
    }
    return false;
  }
  Json ToJson() const {
    Json list = Json::array();
    for (const Finding& finding : findings_) {
      list.push_back({{"part", finding.part},
                      {"state", std::string(StateName(finding.state))},
                      {"text", finding.text}});
    }
    return {{"findings", std::move(list)}, {"ok", !HasProblem()}};
  }
  void Print() const {
    for (const Finding& finding : findings_) {
      const Style style = finding.state == State::kOn    ? Style::kGood
                          : finding.state == State::kOff ? Style::kWarn
                                                         : Style::kBad;
      std::printf("%-10s %s  %s\n", finding.part.c_str(),
                  Styled(finding.state == State::kOn    ? "on "
                         : finding.state == State::kOff ? "off"
                                                        : "BAD",
                         style)
                      .c_str(),
                  finding.text.c_str());
    }
  }

 private:
  std::vector<Finding> findings_;
};

void CheckMachine(Report* report) {
  report->Add("machine", State::kOn,
              std::to_string(std::thread::hardware_concurrency()) +
                  " cores, INT8 scan on " + simd::Int8ScanTargetName() +
                  ", engine " + llm::EngineVersion());
  report->Add("cache", State::kOn, UserCacheDir());
}

void CheckRouting(const GlobalOptions& globals, Report* report) {
  auto path = FindEncoder(globals);
  if (!path.ok()) {
    report->Add("encoder", State::kOff,
                path.status().message() + "; routing by BM25 alone");
    return;
  }
  auto encoder = llm::LoadEncoder({.path = *path, .threads = globals.threads});
  if (!encoder.ok()) {
    report->Add("encoder", State::kProblem, encoder.status().message());
    return;
  }
  const std::vector<std::string> query = {"what is the weather like in Seoul"};
  double best_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::Monotonic().Now();
    const auto vectors = (*encoder)->Embed(query, llm::TextRole::kQuery);
    if (!vectors.ok()) {
      report->Add("encoder", State::kProblem, vectors.status().message());
      return;
    }
    best_ms = std::min(best_ms, Milliseconds(Clock::Monotonic().Now() - start));
  }
  report->Add("encoder", State::kOn,
              *path + ", " + std::to_string((*encoder)->dimension()) +
                  " dimensions, a query in " + FormatMs(best_ms));
  route::RouterOptions router;
  const RouterGate gate = CalibrateOptions(globals, *path, **encoder, &router);
  report->Add("gate", State::kOn, gate.text);
  if (!gate.problem.ok()) {
    report->Add("reranker", State::kProblem, gate.problem.message());
    return;
  }
  if (gate.reranker.empty()) {
    report->Add("reranker", State::kOff,
                "none is calibrated with this encoder: close calls go by the "
                "fused order");
    return;
  }
  auto reranker = llm::LoadReranker({.path = gate.reranker});
  if (!reranker.ok()) {
    report->Add("reranker", State::kProblem, reranker.status().message());
    return;
  }
  const std::vector<std::string> tools(static_cast<size_t>(router.rerank_depth),
                                       "get_weather current weather of a city");
  const auto start = Clock::Monotonic().Now();
  const auto scores = (*reranker)->Score(query.front(), tools);
  if (!scores.ok()) {
    report->Add("reranker", State::kProblem, scores.status().message());
    return;
  }
  report->Add("reranker", State::kOn,
              gate.reranker + ", " + std::to_string(tools.size()) +
                  " short tools in " +
                  FormatMs(Milliseconds(Clock::Monotonic().Now() - start)));
}

// Lists of blocks side by side: the longest that is allowed, or why none is.
void AddComposition(const engine::RepairProfile& profile, Report* report) {
  int longest = 0;
  for (const engine::CompositionRow& row : profile.composition) {
    if (row.allowed) longest = std::max(longest, row.blocks);
  }
  if (longest > 0) {
    report->Add("composed lists", State::kOn,
                "up to " + std::to_string(longest) + " tools");
    return;
  }
  engine::CompositionPlace place;
  place.tools = 1;
  report->Add(
      "composed lists", State::kOff,
      engine::FindComposition(profile.composition, place).status().message());
}

void AddProfile(const engine::Engine& engine, Report* report) {
  const engine::RepairProfile* profile = engine.profile();
  if (profile == nullptr) {
    report->Add("profile", State::kOff,
                engine.splice_status().ok()
                    ? engine.profile_status().message()
                    : "nothing to calibrate: this model isn't spliced");
    return;
  }
  char floor[64];
  std::snprintf(floor, sizeof floor, "noise floor %.4f nats",
                profile->noise_kl);
  std::string text = std::string(floor) + ", made " + profile->made + ": ";
  for (const engine::Budget budget :
       {engine::Budget::kStrict, engine::Budget::kBalanced,
        engine::Budget::kFast}) {
    int spliced = 0;
    int deepest = 0;
    for (const engine::RepairRow& row : profile->rows) {
      if (row.budget != budget || row.blocks != 1 || row.prefill) continue;
      ++spliced;
      deepest = std::max(deepest, row.max_depth);
    }
    text += std::string(engine::BudgetName(budget)) +
            (spliced > 0 ? " up to " + FormatCount(deepest) + " deep, "
                         : " by prefill, ");
  }
  report->Add("profile", State::kOn, text + profile->path);
  AddComposition(*profile, report);
}

void CheckModel(const GlobalOptions& globals, Report* report) {
  auto path = pull::ResolveModel(globals.model);
  if (!path.ok()) {
    report->Add("model", State::kProblem, path.status().message());
    return;
  }
  auto engine = MakeEngine(globals);
  if (!engine.ok()) {
    report->Add("model", State::kProblem, engine.status().message());
    return;
  }
  const llm::ModelInfo& info = (*engine)->model().info();
  report->Add("model", State::kOn,
              info.description + ", " + std::to_string(info.layer_count) +
                  " layers, trained to " + FormatCount(info.context_train) +
                  " tokens: " + info.path);
  const engine::PromptPlanner& planner = (*engine)->planner();
  report->Add("frame", State::kOn,
              planner.frame().family + ": " + planner.frame().reason);
  if (!planner.template_note().empty()) {
    report->Add("template", State::kOff, planner.template_note());
  }
  const engine::AttentionChoice& attention = (*engine)->attention();
  report->Add("flash att.",
              attention.flash_attention ? State::kOn : State::kOff,
              attention.reason +
                  (attention.flash_attention ? "" : "; V is transposed"));
  const Status& splice = (*engine)->splice_status();
  if (splice.ok()) {
    report->Add("splice", State::kOn,
                "RoPE proven in every layer: " + (*engine)->rope().Describe() +
                    "; " + FormatBytes((*engine)->kv_layout().BytesPerToken()) +
                    " a token");
  } else {
    report->Add("splice", State::kOff,
                splice.message() + "; schemas are prefilled as text");
  }
  AddProfile(**engine, report);
  if (kv::BlockStore* store = (*engine)->store()) {
    auto blocks = store->List();
    const size_t count = blocks.ok() ? blocks->size() : 0;
    report->Add("store", State::kOn,
                std::to_string(count) + " blocks, " +
                    FormatBytes(store->TotalBytes()) + " of at most " +
                    FormatBytes(store->max_bytes()) + " in " + store->dir());
    if (const Status index = store->index_status(); !index.ok()) {
      report->Add("index", State::kOff, index.message());
    }
  } else {
    report->Add("store", State::kProblem,
                (*engine)->store_status().message() +
                    "; schemas are prefilled as text");
  }
}

void CheckServers(const GlobalOptions& globals, Report* report) {
  for (const std::string& file : globals.mcp_files) {
    auto servers = mcp::ReadMcpConfigFile(file);
    if (!servers.ok()) {
      report->Add("mcp", State::kProblem, servers.status().message());
      continue;
    }
    auto catalog =
        mcp::McpCatalog::Open(std::move(*servers), {.cancel = &Interrupted()});
    if (!catalog.ok()) {
      report->Add("mcp", State::kProblem, catalog.status().message());
      continue;
    }
    for (const mcp::ServerReport& server : (*catalog)->reports()) {
      if (server.status.code() == StatusCode::kCancelled) {
        report->Add("mcp", State::kOff, server.name + ": disabled in " + file);
      } else if (!server.status.ok()) {
        report->Add("mcp", State::kProblem, server.status.message());
      } else {
        report->Add("mcp", State::kOn,
                    server.name + ": " + std::to_string(server.tool_count) +
                        " tools in " + FormatMs(server.connect_ms) +
                        ", protocol " + server.info.protocol_version);
      }
    }
  }
}

int Run(const GlobalOptions& globals) {
  Report report;
  CheckMachine(&report);
  CheckModel(globals, &report);
  CheckRouting(globals, &report);
  CheckServers(globals, &report);
  if (globals.json) {
    PrintJson(report.ToJson());
  } else {
    report.Print();
  }
  return report.HasProblem() ? kExitSystem : kExitOk;
}

}  // namespace

void AddDoctorCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "doctor", "Say what is on, what is off, and why, on this machine");
  AddModelFlags(command, globals.get());
  AddRouteFlags(command, globals.get());
  command
      ->add_option("--mcp", globals->mcp_files,
                   "Also check the servers of this mcpServers JSON file")
      ->envname("NEXUS_MCP")
      ->type_name("FILE");
  AddJsonFlag(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals); }; });
}

}  // namespace nexus::cli
