// nexus eval: labelled queries against the router, with the baselines beside
// it. The study itself is nexus/eval's; here are flags, files and the terminal.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "nexus/base/file_system.h"
#include "nexus/cli/encoder_memory.h"
#include "nexus/cli/eval_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/eval/decision_lines.h"
#include "nexus/eval/route_report.h"
#include "nexus/pull/model_catalog.h"

namespace nexus::cli {
namespace {

struct EvalRouteFlags {
  std::string queries;
  std::string pool;
  std::vector<int> sizes;
  eval::QueryFilter filter;
  int seeds = 5;
  bool near_miss = false;
  bool words_only = false;
  std::string baseline_encoder;
  std::string neighbour_encoder;
  std::string twins;
  std::string cache;
  std::string report;
  std::string decisions;
  int misses = 0;
  int latency_queries = 50;
  bool count_tokens = false;
  std::string gate;  // found when the encoder is loaded
};

// What is counted is what the served model reads; its weights aren't needed.
Result<std::function<Result<int>(const schema::ToolSchema&)>> TokenCounter(
    const GlobalOptions& globals) {
  llm::ModelOptions options;
  NEXUS_ASSIGN_OR_RETURN(options.path, pull::ResolveModel(globals.model));
  options.vocab_only = true;
  NEXUS_ASSIGN_OR_RETURN(const auto model, llm::Model::Load(options));
  return std::function<Result<int>(const schema::ToolSchema&)>(
      [model](const schema::ToolSchema& tool) -> Result<int> {
        NEXUS_ASSIGN_OR_RETURN(const auto tokens,
                               model->Tokenize(schema::ModelText(tool)));
        return static_cast<int>(tokens.size());
      });
}

void PrintMisses(const std::vector<eval::Miss>& misses) {
  for (const eval::Miss& miss : misses) {
    std::string gold;
    for (const std::string& name : miss.gold) {
      gold += (gold.empty() ? "" : ", ") + name;
    }
    std::printf(
        "\n%s (%s by %s, margin %.4f)\n  query   %s\n  gold    %s\n"
        "  chosen  %s\n",
        miss.kind.c_str(), miss.outcome.c_str(), miss.rule.c_str(),
        static_cast<double>(miss.margin),
        Shorten(OneLine(miss.query), 300).c_str(),
        gold.empty() ? "none" : OneLine(gold).c_str(),
        miss.chosen.empty() ? "none" : OneLine(miss.chosen).c_str());
  }
}

Json MissesJson(const std::vector<eval::Miss>& misses) {
  Json list = Json::array();
  for (const eval::Miss& miss : misses) {
    list.push_back({{"kind", miss.kind},
                    {"query", miss.query},
                    {"gold", miss.gold},
                    {"chosen", miss.chosen},
                    {"margin", miss.margin},
                    {"outcome", miss.outcome},
                    {"rule", miss.rule}});
  }
  return list;
}

// Of the rankings dense-fp32, dense-int8 and rrf.
std::string BaselineName(const GlobalOptions& globals,
                         const EvalRouteFlags& flags) {
  return std::filesystem::path(flags.baseline_encoder.empty()
                                   ? globals.encoder
                                   : flags.baseline_encoder)
      .filename()
      .string();
}

eval::ReportText Facts(const GlobalOptions& globals,
                       const EvalRouteFlags& flags,
                       const eval::RouteStudy& study) {
  eval::ReportText text;
  text.title = "nexus eval route";
  const auto name = [](const std::filesystem::path& path) {
    return path.filename().string();
  };
  text.facts.push_back("registry " + name(globals.tools_file) + ", " +
                       std::to_string(study.registry->tools().size()) +
                       " tools");
  text.facts.push_back("queries " + name(flags.queries) + ", " +
                       std::to_string(study.labels.queries.size()) + " used, " +
                       std::to_string(study.labels.left_out) +
                       " left out for unknown labels");
  text.facts.push_back("pools: " + std::string(PoolKindName(study.pool)) +
                       ", " + std::to_string(study.seeds) + " seed(s)");
  if (!flags.twins.empty()) {
    text.facts.push_back("near-twins by " + name(flags.twins) +
                         " count as one tool");
  }
  text.facts.push_back(
      study.has_encoder
          ? "encoder " + name(globals.encoder) + ", " + flags.gate + ", " +
                (study.has_reranker ? "re-ranker set" : "no re-ranker")
          : "no encoder: words only (BM25)");
  if (study.has_encoder) {
    text.facts.push_back("dense baselines and rrf of " +
                         BaselineName(globals, flags));
  }
  if (study.has_tokens) text.context_tokens = globals.context_tokens;
  return text;
}

// FILE.md, and FILE.svg beside it.
Status WriteReport(const std::string& path, const eval::RouteStudy& study,
                   const std::vector<eval::RouteSummary>& summaries,
                   const eval::ReportText& text) {
  FileSystem& fs = FileSystem::Default();
  std::string picture = path;
  if (picture.ends_with(".md")) picture.resize(picture.size() - 3);
  picture += ".svg";
  NEXUS_RETURN_IF_ERROR(WriteFileAtomically(
      fs, picture, eval::ReportSvg(study, summaries, text.title)));
  return WriteFileAtomically(
      fs, path,
      eval::ReportMarkdown(study, summaries, text) + "\n![plots](" +
          std::filesystem::path(picture).filename().string() + ")\n");
}

// The encoder that the committed one was tuned from, where it stands beside the
// one under test; empty: there is none, or it is the one under test.
std::string FindUntuned(const std::string& encoder) {
  const std::filesystem::path beside =
      std::filesystem::path(encoder).parent_path() /
      "all-MiniLM-L6-v2-Q8_0.gguf";
  std::error_code error;
  if (!std::filesystem::is_regular_file(beside, error) ||
      std::filesystem::equivalent(beside, encoder, error)) {
    return {};
  }
  return beside.string();
}

Result<eval::RouteStudy> RunStudy(GlobalOptions* globals,
                                  EvalRouteFlags* flags_found) {
  const EvalRouteFlags& flags = *flags_found;
  NEXUS_ASSIGN_OR_RETURN(auto tools,
                         schema::ReadRegistryFile(globals->tools_file));
  NEXUS_ASSIGN_OR_RETURN(auto queries, eval::ReadQueryFile(flags.queries));
  queries = eval::FilterQueries(std::move(queries), flags.filter);

  EncoderMemory encoder, baseline, neighbour;
  RerankerMemory reranker;
  if (!flags.words_only) {
    NEXUS_ASSIGN_OR_RETURN(globals->encoder, FindEncoder(*globals));
    NEXUS_ASSIGN_OR_RETURN(
        encoder,
        LoadEncoderMemory(globals->encoder, globals->threads, flags.cache));
    if (flags.baseline_encoder.empty()) {
      flags_found->baseline_encoder = FindUntuned(globals->encoder);
    }
    NEXUS_ASSIGN_OR_RETURN(
        baseline, LoadEncoderMemory(
                      flags.baseline_encoder, globals->threads,
                      flags.cache.empty() ? "" : flags.cache + ".baseline"));
  }
  NEXUS_ASSIGN_OR_RETURN(
      neighbour, LoadEncoderMemory(flags.neighbour_encoder, globals->threads));
  eval::RouteStudyModels models;
  models.encoder = encoder.memo.get();
  models.uncached = encoder.encoder.get();
  models.baseline = baseline.memo.get();
  models.neighbour = neighbour.memo.get();

  eval::RouteStudyOptions options;
  options.pool = eval::ParsePoolKind(flags.pool).value_or(eval::PoolKind::kAll);
  options.sizes = flags.sizes;
  std::sort(options.sizes.begin(), options.sizes.end());
  options.seeds = flags.seeds;
  options.near_miss = flags.near_miss;
  NEXUS_ASSIGN_OR_RETURN(options.twins, eval::ReadTwinFile(flags.twins));
  options.latency_queries = flags.latency_queries;
  if (encoder.encoder != nullptr) {
    RouterGate gate = CalibrateOptions(*globals, globals->encoder,
                                       *encoder.encoder, &options.router);
    NEXUS_RETURN_IF_ERROR(gate.problem);
    flags_found->gate = std::move(gate.text);
    NEXUS_ASSIGN_OR_RETURN(
        reranker,
        LoadRerankerMemory(gate.reranker, globals->threads, flags.cache));
    models.reranker = reranker.memo.get();
    models.uncached_reranker = reranker.reranker.get();
  }
  options.cancel = &Interrupted();
  if (flags.count_tokens) {
    NEXUS_ASSIGN_OR_RETURN(options.count_tokens, TokenCounter(*globals));
  }
  ProgressLine embedding("embedding tools");
  options.embedding_progress = [&](int done, int total) {
    embedding.Update(static_cast<double>(done) / std::max(total, 1),
                     FormatCount(done) + " of " + FormatCount(total));
    if (done == total) embedding.Done();
  };
  ProgressLine routing("routing queries");
  options.query_progress = [&](int done, int total) {
    routing.Update(static_cast<double>(done) / std::max(total, 1),
                   FormatCount(done) + " of " + FormatCount(total));
  };
  auto study = eval::RunRouteStudy(std::move(tools), std::move(queries), models,
                                   options);
  routing.Done();
  encoder.Save();
  baseline.Save();
  reranker.Save();
  return study;
}

int RunRoute(GlobalOptions globals, EvalRouteFlags flags) {
  auto study = RunStudy(&globals, &flags);
  if (!study.ok()) return Fail(study.status());
  constexpr size_t kShownLabels = 5;
  const std::vector<std::string>& unknown = study->labels.unknown;
  for (size_t i = 0; i < std::min(unknown.size(), kShownLabels); ++i) {
    Note(unknown[i]);
  }
  if (unknown.size() > kShownLabels) {
    Note("and " +
         FormatCount(static_cast<int64_t>(unknown.size() - kShownLabels)) +
         " more labels that the registry lacks");
  }
  for (const std::string& warning : study->warnings) Note(warning);

  std::vector<eval::RouteSummary> summaries;
  for (const eval::StudyPoint& point : study->points) {
    summaries.push_back(eval::Summarize(*study, point));
  }
  const eval::ReportText text = Facts(globals, flags, *study);
  if (!flags.report.empty()) {
    const Status written = WriteReport(flags.report, *study, summaries, text);
    if (!written.ok()) return Fail(written);
  }
  if (!flags.decisions.empty()) {
    const Status written = WriteFileAtomically(
        FileSystem::Default(), flags.decisions, eval::DecisionLines(*study));
    if (!written.ok()) return Fail(written);
  }
  const std::vector<eval::Miss> misses = eval::ListMisses(*study, flags.misses);
  if (globals.json) {
    Json report = eval::ReportJson(*study, summaries);
    report["gate"] = flags.gate;
    if (study->has_encoder) {
      report["baseline_encoder"] = BaselineName(globals, flags);
    }
    if (flags.misses > 0) report["misses"] = MissesJson(misses);
    PrintJson(report);
  } else {
    std::printf("%s", eval::ReportMarkdown(*study, summaries, text).c_str());
    PrintMisses(misses);
  }
  return kExitOk;
}

void AddPoolFlags(CLI::App* command, EvalRouteFlags* flags) {
  CLI::Option* pool =
      command
          ->add_option("--pool", flags->pool,
                       "Tools that each query chooses from: random, "
                       "neighbour (half are the right tool's nearest) or "
                       "server (its server's first) [the whole registry]")
          ->check(CLI::IsMember({"random", "neighbour", "server"}));
  CLI::Option* size =
      command
          ->add_option_function<int>(
              "--n", [flags](int n) { flags->sizes = {n}; }, "Tools a pool")
          ->check(CLI::Range(1, 1'000'000))
          ->needs(pool);
  command
      ->add_option("--sweep", flags->sizes,
                   "Several sizes of pools with the same queries, as in "
                   "10,25,50,100,250")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000))
      ->needs(pool)
      ->excludes(size);
  command
      ->add_option("--seeds", flags->seeds,
                   "Pools for each query; the protocol's headline has 20")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--near-miss", flags->near_miss,
                    "Each query once more with its right tools taken out, as "
                    "out of scope");
  AddTwinsFlag(command, &flags->twins);
  command
      ->add_option("--neighbour-encoder", flags->neighbour_encoder,
                   "Encoder GGUF that says what is near [BM25]")
      ->type_name("FILE");
}

}  // namespace

void AddRegistryFlag(CLI::App* command, GlobalOptions* globals) {
  command
      ->add_option("--registry,--tools", globals->tools_file,
                   "Tools: JSON lines, a JSON array or a tools/list result")
      ->required()
      ->type_name("FILE");
}

void AddTwinsFlag(CLI::App* command, std::string* twins) {
  command
      ->add_option("--twins", *twins,
                   "JSON lines of {\"id\", \"twin\"}: tools with equal labels "
                   "count as one")
      ->type_name("FILE");
}

void AddQueryFlags(CLI::App* command, std::string* queries,
                   eval::QueryFilter* filter) {
  command
      ->add_option("--queries", *queries,
                   "JSON lines of {\"query\", \"gold\": [names]}; an empty "
                   "gold is out of scope")
      ->required()
      ->type_name("FILE");
  command->add_option("--split", filter->split,
                      "Only queries of this split, as in test");
  command->add_option("--set", filter->set, "Only queries of this set");
  command->add_option("--part", filter->part, "Only queries of this part");
  command
      ->add_option("--limit", filter->limit,
                   "At most this many queries, drawn; 0: all")
      ->capture_default_str();
  command->add_option("--draw", filter->seed, "Seed of that draw")
      ->capture_default_str();
}

void AddEvalCommand(CLI::App* app, Action* action) {
  CLI::App* group = app->add_subcommand(
      "eval", "Measure on labelled queries, with baselines");
  group->require_subcommand(1);
  AddEvalArgs(group, action);
  AddEvalE2e(group, action);
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<EvalRouteFlags>();
  CLI::App* command = group->add_subcommand(
      "route",
      "How often the right tool is found, and routed, over a registry and a "
      "query file");
  AddRegistryFlag(command, globals.get());
  AddQueryFlags(command, &flags->queries, &flags->filter);
  AddPoolFlags(command, flags.get());
  AddRouteFlags(command, globals.get());
  command->add_flag("--words-only", flags->words_only,
                    "No encoder: BM25 decides");
  command
      ->add_option("--baseline-encoder", flags->baseline_encoder,
                   "Un-tuned encoder GGUF of the baselines "
                   "[all-MiniLM-L6-v2-Q8_0.gguf beside the one under test, "
                   "else that one]")
      ->type_name("FILE");
  AddEncoderMemoryFlags(command, globals.get(), &flags->cache);
  CLI::Option* model = command->add_option(
      "-m,--model", globals->model,
      "Count tokens of the schemas by this model's tokenizer");
  command
      ->add_option("--ctx", globals->context_tokens,
                   "Context that all schemas would have to fit in")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--latency-queries", flags->latency_queries,
                   "Queries measured without any cache, for each size")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  command
      ->add_option("--report", flags->report,
                   "Write the tables here, and plots beside it")
      ->type_name("FILE.md");
  command
      ->add_option("--decisions", flags->decisions,
                   "Write every decision here, a JSON line each")
      ->type_name("FILE.jsonl");
  command->add_option("--misses", flags->misses, "Show this many real misses")
      ->check(CLI::Range(0, 100'000));
  AddJsonFlag(command, globals.get());
  command->callback([=] {
    flags->count_tokens = model->count() > 0;
    *action = [=] { return RunRoute(*globals, *flags); };
  });
}

}  // namespace nexus::cli
