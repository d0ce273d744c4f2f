#include "nexus/cli/common.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/log.h"
#include "nexus/cli/terminal.h"
#include "nexus/kv/recompute_plan.h"
#include "nexus/pull/model_catalog.h"
#include "nexus/route/router_profile.h"

namespace nexus::cli {

int Fail(const Status& status) {
  Log(LogLevel::kError, status.message());
  return ExitCodeFor(status);
}

void PrintJson(const Json& object) {
  Json all = {{"schema_version", kJsonSchemaVersion}};
  all.update(object);
  std::printf("%s\n", DumpJson(all).c_str());
}

Result<ToolSource> LoadTools(const GlobalOptions& options) {
  ToolSource source;
  if (options.mcp_files.empty() && options.tools_file.empty()) {
    return InvalidArgumentError(
        "no tools: give --mcp FILE (a client's mcpServers JSON) or --tools "
        "FILE (a registry, JSON lines)");
  }
  if (!options.tools_file.empty()) {
    std::vector<std::string> skipped;
    NEXUS_ASSIGN_OR_RETURN(
        source.tools, schema::ReadRegistryFile(options.tools_file, &skipped));
    for (const std::string& line : skipped) Note("skipped " + line);
  }
  std::vector<mcp::McpServerConfig> servers;
  for (const std::string& file : options.mcp_files) {
    NEXUS_ASSIGN_OR_RETURN(auto more, mcp::ReadMcpConfigFile(file));
    std::move(more.begin(), more.end(), std::back_inserter(servers));
  }
  if (!servers.empty()) {
    NEXUS_ASSIGN_OR_RETURN(
        source.catalog,
        mcp::McpCatalog::Open(std::move(servers), {.cancel = &Interrupted()}));
    for (const mcp::ServerReport& report : source.catalog->reports()) {
      if (!report.status.ok() &&
          report.status.code() != StatusCode::kCancelled) {
        Note(report.status.message());
      }
      for (const std::string& warning : report.warnings) Note(warning);
    }
    if (Interrupted()) return CancelledError("interrupted while connecting");
    source.tools.insert(source.tools.end(), source.catalog->tools().begin(),
                        source.catalog->tools().end());
  }
  if (source.tools.empty()) {
    if (source.catalog == nullptr) {
      return InvalidArgumentError(
          options.tools_file +
          ": no tool in it; expected JSON lines of MCP tools or OpenAI "
          "functions, a JSON array of them, or a tools/list result");
    }
    return UnavailableError(
        "no tools: every server failed or listed none; see the lines above");
  }
  return source;
}

Result<std::unique_ptr<engine::Engine>> MakeEngine(
    const GlobalOptions& options) {
  engine::EngineOptions engine_options;
  NEXUS_ASSIGN_OR_RETURN(engine_options.model_path,
                         pull::ResolveModel(options.model));
  engine_options.store_dir = options.store;
  engine_options.context_tokens = options.context_tokens;
  engine_options.threads = options.threads;
  engine_options.rpc_servers = options.rpc_servers;
  engine_options.rpc_layers = options.rpc_layers;
  if (options.flash_attention != "auto") {
    engine_options.flash_attention = options.flash_attention == "on";
  }
  engine_options.kv_type =
      options.kv_type == "f32" ? llm::KvType::kF32 : llm::KvType::kF16;
  engine_options.profile_path = options.profile;
  const std::string program = ProgramDir();
  engine_options.profile_dirs = {program + "/../share/nexus/profiles",
                                 program + "/../../profiles"};
  engine_options.learn = options.learn;
  return engine::Engine::Create(engine_options);
}

std::string ProgramDir() {
  std::array<char, 4096> path{};
  const ssize_t length =
      ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (length <= 0) return "";
  return std::filesystem::path(
             std::string(path.data(), static_cast<size_t>(length)))
      .parent_path()
      .string();
}

Result<std::string> FindEncoder(const GlobalOptions& options) {
  if (!options.encoder.empty()) {
    if (!FileSystem::Default().Exists(options.encoder)) {
      return NotFoundError("encoder " + options.encoder + ": no such file");
    }
    return options.encoder;
  }
  const std::string name = "nexus-route-minilm-Q8_0.gguf";
  const std::string program = ProgramDir();
  // Installed (bin/ beside share/), then the build tree (build/<preset>/).
  for (const std::string& dir :
       {program + "/../share/nexus/models", program + "/../../models"}) {
    const std::string path = dir + "/" + name;
    if (FileSystem::Default().Exists(path)) {
      std::error_code ignored;
      const auto tidy = std::filesystem::weakly_canonical(path, ignored);
      return ignored ? path : tidy.string();
    }
  }
  return NotFoundError("encoder " + name +
                       " isn't beside the program; give --encoder FILE");
}

namespace {

// The cross-encoder that the profile was made with stands beside the encoder.
Result<std::string> FindCalibratedReranker(
    const std::string& encoder_path, const route::RouterProfile::Pairs& pairs) {
  const std::string path =
      (std::filesystem::path(encoder_path).parent_path() / pairs.reranker)
          .string();
  NEXUS_ASSIGN_OR_RETURN(const Sha256Digest digest, Sha256OfFile(path));
  if (ToHex(digest) != pairs.reranker_sha256) {
    return IncompatibleError(
        path +
        ": not the re-ranker that the encoder was calibrated with; run "
        "`nexus calibrate-router` again");
  }
  return path;
}

}  // namespace

RouterGate CalibrateOptions(const GlobalOptions& options,
                            const std::string& path,
                            const llm::Embedder& encoder,
                            route::RouterOptions* router) {
  RouterGate gate;
  const auto margin_rule = [&](const std::string& why) {
    router->bm25_weight = route::kUncalibratedBm25Weight;
    gate.text = "margin rule, tau " + DumpJson(Json(router->gate.tau)) + why;
    // A re-ranker that is asked for goes by its own odds.
    if (options.reranker != "none") gate.reranker = options.reranker;
    return gate;
  };
  if (options.tau.has_value()) {
    router->gate.tau = static_cast<float>(*options.tau);
    return margin_rule(", as asked for by --tau");
  }
  auto profile = route::ReadRouterProfile(FileSystem::Default(),
                                          route::RouterProfilePath(path),
                                          encoder.fingerprint());
  if (!profile.ok()) {
    // Most encoders have none, and that is no news.
    if (profile.status().code() != StatusCode::kNotFound) {
      Note(profile.status().message());
    }
    return margin_rule(" (uncalibrated)");
  }
  router->bm25_weight = profile->bm25_weight;
  router->gate.head = profile->head;
  gate.text = "calibrated head, route from a chance of " +
              DumpJson(Json(profile->head.route_at)) + ", words weigh " +
              DumpJson(Json(profile->bm25_weight));
  if (options.reranker == "none") return gate;
  if (!options.reranker.empty()) {
    gate.reranker = options.reranker;
    gate.text += "; a re-ranker by its odds, uncalibrated";
    return gate;
  }
  if (!profile->pairs.has_value()) return gate;
  auto found = FindCalibratedReranker(path, *profile->pairs);
  if (!found.ok()) {
    gate.problem = found.status();
    return gate;
  }
  gate.reranker = std::move(found).value();
  router->rerank_depth = profile->pairs->depth;
  router->pairs.blend = profile->pairs->blend;
  router->pairs.head = profile->pairs->head;
  gate.text += "; then " + profile->pairs->reranker + " over " +
               std::to_string(profile->pairs->depth) +
               " tools, route from a chance of " +
               DumpJson(Json(profile->pairs->head.route_at));
  return gate;
}

RoutingEncoder LoadRoutingEncoder(const GlobalOptions& options) {
  RoutingEncoder encoder;
  auto path = FindEncoder(options);
  if (!path.ok()) {
    encoder.problem = path.status();
    return encoder;
  }
  auto embedder = llm::LoadEncoder({.path = *path, .threads = options.threads});
  if (!embedder.ok()) {
    encoder.problem = embedder.status();
    return encoder;
  }
  encoder.embedder = std::move(embedder).value();
  encoder.path = std::move(path).value();
  RouterGate gate = CalibrateOptions(options, encoder.path, *encoder.embedder,
                                     &encoder.router);
  encoder.problem = std::move(gate.problem);
  if (gate.reranker.empty()) return encoder;
  auto reranker =
      llm::LoadReranker({.path = gate.reranker, .threads = options.threads});
  if (reranker.ok()) {
    encoder.reranker = std::move(reranker).value();
  } else {
    encoder.problem = reranker.status();
  }
  return encoder;
}

std::string RoutingEncoder::MissingNote() const {
  if (problem.ok()) return {};
  return (embedder == nullptr ? "BM25 only: " : "no re-ranker: ") +
         problem.message();
}

std::string EmbeddingCachePath() { return UserCacheDir() + "/embeddings.slb"; }

Result<Routing> MakeRouting(const GlobalOptions& options,
                            std::vector<schema::ToolSchema> tools) {
  RoutingEncoder encoder = LoadRoutingEncoder(options);
  Routing routing;
  routing.note = encoder.MissingNote();
  routing.embedder = std::move(encoder.embedder);
  routing.reranker = std::move(encoder.reranker);
  // What was asked for by name must not be replaced silently.
  if (routing.embedder == nullptr && !options.encoder.empty()) {
    return NotFoundError(encoder.problem.message());
  }
  if (routing.reranker == nullptr && !options.reranker.empty() &&
      options.reranker != "none" && !encoder.problem.ok()) {
    return encoder.problem;
  }
  ProgressLine line("embedding tools");
  NEXUS_ASSIGN_OR_RETURN(
      auto index,
      route::ToolIndex::Build(
          std::move(tools), routing.embedder.get(),
          {.cache_path = EmbeddingCachePath(),
           .progress =
               [&](int done, int total) {
                 line.Update(static_cast<double>(done) / std::max(1, total),
                             FormatCount(done) + " of " + FormatCount(total));
               },
           .cancel = &Interrupted()}));
  line.Done();
  for (const std::string& warning : index->warnings()) Note(warning);
  routing.router =
      std::make_unique<route::Router>(std::move(index), routing.embedder.get(),
                                      encoder.router, routing.reranker.get());
  return routing;
}

Status CheckServers(const std::vector<schema::ToolSchema>& tools,
                    const std::vector<std::string>& wanted) {
  std::set<std::string> known;
  for (const schema::ToolSchema& tool : tools) known.insert(tool.server);
  for (const std::string& server : wanted) {
    if (known.contains(server)) continue;
    std::string list;
    for (const std::string& name : known) {
      if (!name.empty()) list += (list.empty() ? "" : ", ") + name;
    }
    return NotFoundError("--server: no tool of a server '" + server +
                         "'; there are: " + (list.empty() ? "none" : list));
  }
  return Status::Ok();
}

CLI::Validator FiniteRange(double low, double high) {
  const std::string description =
      DumpJson(Json(low)) + " to " + DumpJson(Json(high));
  return CLI::Validator(
      [=](std::string& input) {
        double value = 0;
        if (CLI::detail::lexical_cast(input, value) && std::isfinite(value) &&
            value >= low && value <= high) {
          return std::string();
        }
        return "'" + input + "' is not a number from " + description;
      },
      description);
}

CancelOnInterrupt::CancelOnInterrupt(llm::Context* context)
    : watcher_([this, context] {
        while (!done_.load()) {
          if (Interrupted().load()) {
            context->Cancel();
            return;
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
      }) {}

CancelOnInterrupt::~CancelOnInterrupt() {
  done_.store(true);
  watcher_.join();
}

void AddTierFlag(CLI::App* command, RepairFlags* flags) {
  command
      ->add_option("--tier", flags->tier,
                   "How the schema comes into the context: auto, exact-prefix, "
                   "exact-variant, splice or prefill")
      ->check(CLI::IsMember(
          {"auto", "exact-prefix", "exact-variant", "splice", "prefill"}))
      ->capture_default_str();
}

void AddRepairFlags(CLI::App* command, RepairFlags* flags) {
  command
      ->add_option("--policy", flags->policy,
                   "Which spliced tokens are decoded again [what the model's "
                   "profile says for the budget]")
      ->check(CLI::IsMember(
          {"none", "suffix", "head", "sensitivity", "head-tail", "full"}));
  command
      ->add_option(
          "--budget", flags->budget,
          "How near to full prefill: strict (KL within twice the noise "
          "floor), balanced (0.003 nats) or fast (0.02, no repair) [fast]")
      ->check(CLI::IsMember({"strict", "balanced", "fast"}))
      ->excludes("--policy");
  command
      ->add_option("--recompute", flags->recompute_percent,
                   "Share of the block to decode again, in percent (policy: "
                   "sensitivity, if none is given)")
      ->check(FiniteRange(0, 100))
      ->excludes("--budget");
}

Result<engine::PrepareOptions> ParseRepairFlags(const RepairFlags& flags) {
  engine::PrepareOptions options;
  const auto tier = engine::ParseTier(flags.tier);
  if (!tier.has_value()) {
    return InvalidArgumentError("--tier: unknown tier '" + flags.tier + "'");
  }
  options.tier = *tier;
  if (!flags.policy.empty()) {
    options.policy = kv::ParseRepairPolicy(flags.policy);
    if (!options.policy.has_value()) {
      return InvalidArgumentError("--policy: unknown policy '" + flags.policy +
                                  "'");
    }
  } else if (flags.recompute_percent >= 0) {
    options.policy = kv::RepairPolicy::kSensitivity;
  }
  if (!flags.budget.empty()) {
    const auto budget = engine::ParseBudget(flags.budget);
    if (!budget.has_value()) {
      return InvalidArgumentError("--budget: unknown budget '" + flags.budget +
                                  "'");
    }
    options.budget = *budget;
  }
  if (flags.recompute_percent >= 0) {
    options.recompute_share = flags.recompute_percent / 100;
  } else if (options.policy.has_value() &&
             options.policy != kv::RepairPolicy::kSuffix) {
    // Only the suffix has a curve of its own.
    options.recompute_share = 0.22;
  }
  return options;
}

}  // namespace nexus::cli
