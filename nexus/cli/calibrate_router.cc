// nexus calibrate-router: learn, for one encoder, what words weigh beside
// cosines and from which chance on a tool may be taken. The learning itself is
// nexus/eval's; here are flags, files and the terminal.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "nexus/base/clock.h"
#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/cli/commands.h"
#include "nexus/cli/encoder_memory.h"
#include "nexus/cli/eval_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/log.h"
#include "nexus/cli/terminal.h"
#include "nexus/eval/router_calibration.h"
#include "nexus/route/router_profile.h"

namespace nexus::cli {
namespace {

struct CalibrateRouterFlags {
  std::vector<std::string> registries;
  std::vector<std::string> queries;
  eval::QueryFilter filter;
  std::vector<int> sizes = {10, 50, 250};
  double precision_percent = 98;
  double false_routing_percent = 5;
  int depth = 10;
  bool force = false;
  std::string twins;
  std::string cache;
  std::string out;
};

std::string FileName(const std::filesystem::path& path) {
  return path.filename().string();
}

Result<std::vector<eval::CalibrationSet>> ReadSets(
    const CalibrateRouterFlags& flags) {
  if (flags.registries.size() != flags.queries.size()) {
    return InvalidArgumentError(
        "--registry and --queries go in pairs: " +
        std::to_string(flags.registries.size()) + " registries, " +
        std::to_string(flags.queries.size()) + " query files");
  }
  std::vector<eval::CalibrationSet> sets;
  for (size_t i = 0; i < flags.registries.size(); ++i) {
    eval::CalibrationSet set;
    set.name = FileName(flags.queries[i]);
    NEXUS_ASSIGN_OR_RETURN(auto queries, eval::ReadQueryFile(flags.queries[i]));
    set.queries = eval::FilterQueries(std::move(queries), flags.filter);
    if (set.queries.empty()) {
      Note(set.name + ": no queries left after the filters; not used");
      continue;
    }
    NEXUS_ASSIGN_OR_RETURN(set.tools,
                           schema::ReadRegistryFile(flags.registries[i]));
    sets.push_back(std::move(set));
  }
  return sets;
}

Json FiguresJson(const eval::StageFigures& figures) {
  return {{"top1", figures.top1},
          {"auto_share", figures.auto_share},
          {"auto_precision", figures.auto_precision},
          {"false_route", figures.false_route},
          {"auroc", figures.auroc}};
}

Json ReachJson(const std::vector<eval::ReachPoint>& reach) {
  Json list = Json::array();
  for (const eval::ReachPoint& point : reach) {
    list.push_back({{"precision", point.precision},
                    {"route_at", point.route_at},
                    {"auto_share", point.figures.auto_share},
                    {"auto_precision", point.figures.auto_precision},
                    {"false_route", point.figures.false_route}});
  }
  return list;
}

Json MarginJson(const eval::MarginFigures& margin) {
  Json json = FiguresJson(margin.figures);
  // Out of reach: no tau routes anything at the wanted precision.
  json["tau"] =
      margin.figures.auto_share > 0 ? Json(margin.tau) : Json(nullptr);
  return json;
}

Json SecondLookJson(const eval::RouterCalibration& fit) {
  if (!fit.pairs.has_value()) return nullptr;
  Json json = FiguresJson(fit.pairs->figures);
  json["trials"] = fit.pairs->read;
  for (const eval::BlendPoint& point : fit.pairs->curve) {
    json["blends_tried"].push_back(
        {{"blend", point.blend}, {"top1", point.top1}});
  }
  return json;
}

Json Measured(const eval::RouterCalibration& fit,
              const CalibrateRouterFlags& flags) {
  Json curve = Json::array();
  for (const eval::WeightPoint& point : fit.curve) {
    curve.push_back({{"bm25_weight", point.bm25_weight}, {"top1", point.top1}});
  }
  Json sources = Json::array();
  for (const std::string& path : flags.queries) {
    sources.push_back(FileName(path));
  }
  return {{"sources", sources},
          {"split", flags.filter.split},
          {"twins", flags.twins.empty() ? Json() : Json(FileName(flags.twins))},
          {"sets", fit.sets},
          {"queries", fit.queries},
          {"trials", fit.trials},
          {"precision_wanted", flags.precision_percent / 100},
          {"false_route_allowed", flags.false_routing_percent / 100},
          {"reach", ReachJson(fit.last_reach())},
          {"margin_rule",
           {{"paper", MarginJson(fit.paper_margin)},
            {"learnt", MarginJson(fit.best_margin)}}},
          {"first_look", FiguresJson(fit.figures)},
          {"weights_tried", curve},
          {"second_look", SecondLookJson(fit)}};
}

void PrintHead(const route::GateHead& head, const eval::StageFigures& figures) {
  std::printf("chance = 1 / (1 + exp(-(%.3f", static_cast<double>(head.bias));
  for (size_t i = 0; i < route::kGateSignalCount; ++i) {
    if (head.weights[i] == 0) continue;
    std::printf(" %+.3f %s", static_cast<double>(head.weights[i]),
                route::kGateSignalNames[i].data());
  }
  std::printf(
      ")))\nroute from %.4f, abstain below %.4f: %.1f %% routed, %.1f %% of "
      "them right, %.1f %% of what is out of scope routed, AUROC %.3f\n",
      static_cast<double>(head.route_at),
      static_cast<double>(head.abstain_below), 100 * figures.auto_share,
      100 * figures.auto_precision, 100 * figures.false_route, figures.auroc);
}

std::string Percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::vector<std::string> GateRow(std::string what,
                                 const eval::StageFigures& figures) {
  if (figures.auto_share <= 0) {
    return {std::move(what), "nothing", "-", Percent(figures.false_route)};
  }
  return {std::move(what), Percent(figures.auto_share),
          Percent(figures.auto_precision), Percent(figures.false_route)};
}

void PrintReach(const eval::RouterCalibration& fit,
                const CalibrateRouterFlags& flags) {
  std::printf(
      "what can be had with at most %g %% of what is out of scope routed:\n",
      flags.false_routing_percent);
  Table table({"gate", "routed", "right", "out of scope routed"});
  for (const eval::ReachPoint& point : fit.last_reach()) {
    char what[48];
    std::snprintf(what, sizeof what, "head, precision %g %%",
                  100 * point.precision);
    table.AddRow(GateRow(what, point.figures));
  }
  char tau[48];
  std::snprintf(tau, sizeof tau, "margin, tau %.4f (the paper's)",
                static_cast<double>(fit.paper_margin.tau));
  table.AddRow(GateRow(tau, fit.paper_margin.figures));
  std::snprintf(tau, sizeof tau, "margin, best tau for %g %%",
                flags.precision_percent);
  std::string best = tau;
  if (fit.best_margin.figures.auto_share > 0) {
    std::snprintf(tau, sizeof tau, ": %.4f",
                  static_cast<double>(fit.best_margin.tau));
    best += tau;
  }
  table.AddRow(GateRow(best, fit.best_margin.figures));
  std::printf("%s", table.Render().c_str());
}

void Print(const route::RouterProfile& profile,
           const eval::RouterCalibration& fit,
           const CalibrateRouterFlags& flags) {
  std::printf(
      "%d sets, %d queries, %d trials (each over several pools, and once more "
      "without its right tool)\n",
      fit.sets, fit.queries, fit.trials);
  std::printf("%8s %8s\n", "words", "top-1");
  for (const eval::WeightPoint& point : fit.curve) {
    std::printf("%8.2f %7.1f%%%s\n", static_cast<double>(point.bm25_weight),
                100 * point.top1,
                point.bm25_weight == fit.bm25_weight ? "  <- taken" : "");
  }
  PrintHead(fit.head, fit.figures);
  if (fit.pairs.has_value()) {
    std::printf("second look at %d trials, by the first %d tools of each\n",
                fit.pairs->read, profile.pairs->depth);
    std::printf("%8s %8s\n", "fused", "top-1");
    for (const eval::BlendPoint& point : fit.pairs->curve) {
      std::printf("%8.2f %7.1f%%%s\n", static_cast<double>(point.blend),
                  100 * point.top1,
                  point.blend == fit.pairs->blend ? "  <- taken" : "");
    }
    PrintHead(fit.pairs->head, fit.pairs->figures);
  }
  PrintReach(fit, flags);
}

// Routing looks for it there, by its name alone. With a profile of another
// place the user brings them together.
Status CheckReranker(const std::string& reranker, const std::string& encoder,
                     const CalibrateRouterFlags& flags) {
  if (reranker.empty()) return {};
  const std::filesystem::path beside =
      std::filesystem::path(encoder).parent_path() / FileName(reranker);
  std::error_code error;
  if (!std::filesystem::is_regular_file(reranker, error)) {
    return NotFoundError("--reranker " + reranker + ": there is no such file");
  }
  if (!flags.out.empty() ||
      std::filesystem::equivalent(reranker, beside, error)) {
    return {};
  }
  return InvalidArgumentError("--reranker " + reranker +
                              ": must stand beside the encoder, as " +
                              beside.string() + ", or give --out");
}

int Run(GlobalOptions globals, const CalibrateRouterFlags& flags) {
  auto path = FindEncoder(globals);
  if (!path.ok()) return Fail(path.status());
  if (const Status status = CheckReranker(globals.reranker, *path, flags);
      !status.ok()) {
    return Fail(status);
  }
  auto sets = ReadSets(flags);
  if (!sets.ok()) return Fail(sets.status());
  auto memory = LoadEncoderMemory(*path, globals.threads, flags.cache);
  if (!memory.ok()) return Fail(memory.status());
  auto digest = Sha256OfFile(*path);
  if (!digest.ok()) return Fail(digest.status());
  auto reranker =
      LoadRerankerMemory(globals.reranker, globals.threads, flags.cache);
  if (!reranker.ok()) return Fail(reranker.status());

  eval::RouterCalibrationOptions options;
  options.pool_sizes = flags.sizes;
  std::sort(options.pool_sizes.begin(), options.pool_sizes.end());
  options.precision = flags.precision_percent / 100;
  options.false_route = flags.false_routing_percent / 100;
  auto twins = eval::ReadTwinFile(flags.twins);
  if (!twins.ok()) return Fail(twins.status());
  options.twins = *std::move(twins);
  options.cancel = &Interrupted();
  options.reranker = reranker->memo.get();
  options.rerank_depth = flags.depth;
  ProgressLine line("reading sets");
  options.progress = [&](int done, int total) {
    line.Update(static_cast<double>(done) / std::max(total, 1),
                FormatCount(done) + " of " + FormatCount(total));
  };
  ProgressLine pairs_line("reading pairs");
  options.pairs_progress = [&](int done, int total) {
    pairs_line.Update(static_cast<double>(done) / std::max(total, 1),
                      FormatCount(done) + " of " + FormatCount(total));
  };
  auto fit =
      eval::CalibrateRouter(std::move(*sets), memory->memo.get(), options);
  line.Done();
  pairs_line.Done();
  memory->Save();
  reranker->Save();
  if (!fit.ok()) return Fail(fit.status());

  route::RouterProfile profile;
  profile.encoder = FileName(*path);
  profile.encoder_sha256 = ToHex(*digest);
  profile.made = UtcDate();
  profile.bm25_weight = fit->bm25_weight;
  profile.head = fit->head;
  if (fit->pairs.has_value()) {
    auto pair_digest = Sha256OfFile(globals.reranker);
    if (!pair_digest.ok()) return Fail(pair_digest.status());
    profile.pairs = {.reranker = FileName(globals.reranker),
                     .reranker_sha256 = ToHex(*pair_digest),
                     .depth = flags.depth,
                     .blend = fit->pairs->blend,
                     .head = fit->pairs->head};
  }
  profile.measured = Measured(*fit, flags);
  const std::string out =
      flags.out.empty() ? route::RouterProfilePath(*path) : flags.out;
  // Beside the encoder it would be used from now on, and route nothing.
  const bool reached = fit->last_figures().auto_share > 0;
  const bool write = reached || flags.force || !flags.out.empty();
  if (write) {
    const Status written =
        route::WriteRouterProfile(FileSystem::Default(), out, profile);
    if (!written.ok()) return Fail(written);
  }
  if (globals.json) {
    Json object = profile.measured;
    object["bm25_weight"] = profile.bm25_weight;
    object["route_at"] = profile.head.route_at;
    object["abstain_below"] = profile.head.abstain_below;
    object["profile"] = write ? Json(out) : Json(nullptr);
    PrintJson(object);
  } else {
    Print(profile, *fit, flags);
    if (write) {
      std::printf("profile of %s written to %s\n", profile.encoder.c_str(),
                  out.c_str());
    }
  }
  if (reached) return kExitOk;
  const std::string problem =
      "out of reach: no chance keeps a precision of " +
      DumpJson(Json(flags.precision_percent)) + " % with at most " +
      DumpJson(Json(flags.false_routing_percent)) +
      " % of what is out of scope routed, so this profile routes nothing but "
      "tools that are named";
  if (write) {
    Note(problem);
    return kExitOk;
  }
  Log(LogLevel::kError,
      problem +
          "; not written: ask for less (--precision, --false-routing), or "
          "write it all the same with --force");
  return kExitInternal;
}

}  // namespace

void AddCalibrateRouterCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<CalibrateRouterFlags>();
  CLI::App* command = app->add_subcommand(
      "calibrate-router",
      "Learn when an encoder's first choice may be taken, from labelled "
      "queries");
  command
      ->add_option("--registry", flags->registries,
                   "Tools: JSON lines, a JSON array or a tools/list result; "
                   "may be repeated, with a --queries each")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--queries", flags->queries,
                   "JSON lines of {\"query\", \"gold\": [names]}, in the order "
                   "of the registries")
      ->required()
      ->type_name("FILE");
  command->add_option("--split", flags->filter.split,
                      "Only queries of this split, as in calibration");
  command
      ->add_option("--limit", flags->filter.limit,
                   "At most this many queries of a file, drawn; 0: all")
      ->capture_default_str();
  AddTwinsFlag(command, &flags->twins);
  command
      ->add_option("--pools", flags->sizes,
                   "Tools a pool, beside the whole registry")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--precision", flags->precision_percent,
                   "Of the routed, this share must be right, in percent")
      ->check(FiniteRange(50, 100))
      ->capture_default_str();
  command
      ->add_option("--false-routing", flags->false_routing_percent,
                   "Of what is out of scope, near misses included, at most "
                   "this share may be routed, in percent")
      ->check(FiniteRange(0, 100))
      ->capture_default_str();
  command->add_flag("--force", flags->force,
                    "Write the profile beside the encoder also when the "
                    "precision is out of reach and it routes nothing");
  command
      ->add_option("--encoder", globals->encoder,
                   "Encoder GGUF to calibrate [the one that comes with nexus]")
      ->envname("NEXUS_ENCODER")
      ->type_name("FILE");
  command
      ->add_option("--reranker", globals->reranker,
                   "Cross-encoder GGUF to calibrate with it, which must stand "
                   "beside the encoder [none]")
      ->type_name("FILE");
  command
      ->add_option("--depth", flags->depth, "Tools that it reads of each query")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddEncoderMemoryFlags(command, globals.get(), &flags->cache);
  command
      ->add_option("-o,--out", flags->out,
                   "Profile to write [beside the encoder, where routing finds "
                   "it]")
      ->type_name("FILE.json");
  AddJsonFlag(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
