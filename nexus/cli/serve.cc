// nexus serve: the OpenAI-compatible server.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>

#include "nexus/cli/backend_flags.h"
#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/listen.h"
#include "nexus/cli/log.h"
#include "nexus/cli/pull_progress.h"
#include "nexus/cli/terminal.h"
#include "nexus/net/http_server.h"
#include "nexus/net/origin_rules.h"
#include "nexus/pull/model_catalog.h"
#include "nexus/serve/http_api.h"
#include "nexus/serve/page_assets.h"
#include "nexus/serve/remote_api.h"
#include "nexus/serve/request_log.h"
#include "nexus/serve/session_store.h"

namespace nexus::cli {
namespace {

struct ServeFlags {
  std::string host = "127.0.0.1";
  int port = 8080;
  KeyFlags key;
  std::vector<std::string> names;
  std::vector<std::string> origins;
  std::string tools_mode = "route";
  int hybrid_tools = 4;
  int sessions = 4;
  int parallel = 1;
  int queue = 64;
  int deadline_s = 600;
  int max_body_mb = 4;
  int drain_s = 30;
  int audit = 0;
  bool idle_work = true;
  bool pull = true;
  std::string session_dir;
  RepairFlags repair;
  BackendFlags backend;
};

// Bodies as long as one may be that can be at work at once.
constexpr size_t kBodiesOfTheLongest = 4;

std::string ModelName(const GlobalOptions& globals) {
  if (globals.model.empty()) return pull::DefaultModel().name;
  const std::filesystem::path path(globals.model);
  return path.extension() == ".gguf" ? path.stem().string() : globals.model;
}

Result<std::unique_ptr<serve::ToolRouter>> MakeToolRouter(
    const GlobalOptions& globals, std::string* encoder_name) {
  RoutingEncoder encoder = LoadRoutingEncoder(globals);
  const bool dense = encoder.embedder != nullptr;
  if (dense)
    *encoder_name = std::filesystem::path(encoder.path).stem().string();
  if (!encoder.problem.ok()) {
    const std::string& asked = dense ? globals.reranker : globals.encoder;
    if (!asked.empty()) return encoder.problem;
    Note(encoder.MissingNote());
  }
  serve::ToolRouterOptions options;
  options.router = encoder.router;
  options.embedding_cache = EmbeddingCachePath();
  return std::make_unique<serve::ToolRouter>(
      std::move(encoder.embedder), options, std::move(encoder.reranker));
}

void NoteSessions(const char* what, const serve::SessionStoreReport& report) {
  for (const std::string& note : report.notes) Note(note);
  if (report.sessions == 0) return;
  Note(std::string("sessions ") + what + ": " +
       std::to_string(report.sessions) + ", " + FormatCount(report.tokens) +
       " tokens");
}

void LogRequest(const serve::RequestRecord& record) {
  Log(LogLevel::kInfo, LogIsJson() ? "request" : OneLine(ToText(record)),
      ToJson(record));
}

void LogAudit(const serve::AuditOutcome& outcome) {
  Json fields = {{"id", outcome.request_id}, {"tool", outcome.tool}};
  if (!outcome.report.ok()) {
    const std::string why = outcome.report.status().ToString();
    fields["error"] = why;
    Log(LogLevel::kWarn, OneLine("no audit of " + outcome.tool + ": " + why),
        fields);
    return;
  }
  const engine::AuditReport& report = *outcome.report;
  fields.update(engine::AuditToJson(report));
  const std::string done = report.broke_budget ? "demoted " : "audited ";
  Log(report.broke_budget ? LogLevel::kWarn : LogLevel::kInfo,
      OneLine(done + outcome.tool + ": " + report.verdict), fields);
}

std::function<size_t()> ConnectionCount(const net::HttpServer& server) {
  return [&server] { return server.counts().connections; };
}

// What is served, and how it is told that it ends.
struct Served {
  std::string name;
  net::HttpServer::Handler handler;
  std::function<void()> set_draining;
  serve::RequestLog* requests = nullptr;
  // Once there is a server.
  std::function<void(const net::HttpServer&)> on_start = [](const auto&) {};
};

// Until SIGTERM or Ctrl-C.
int ServeUntilInterrupted(const ServeFlags& flags, const std::string& key,
                          const Served& served) {
  RaiseFileLimit();
  net::HttpServerOptions server_options;
  server_options.host = flags.host;
  server_options.port = flags.port;
  server_options.bearer_token = key;
  server_options.open_paths = serve::PagePaths();
  server_options.open_paths.push_back("/health");
  server_options.allowed_origins = flags.origins;
  server_options.own_host_pages = true;
  // Parsed JSON takes ten times its text, for each request at work.
  server_options.max_body_bytes = static_cast<size_t>(flags.max_body_mb) << 20;
  server_options.max_bodies_bytes =
      std::max(server_options.max_bodies_bytes,
               kBodiesOfTheLongest * server_options.max_body_bytes);
  server_options.error_body = serve::HttpApi::ErrorBody;
  server_options.on_answered = [&](const net::AnsweredRequest& request) {
    served.requests->NoteAnswer(request);
  };
  // A thread for each request that may wait, and some to refuse the others.
  server_options.max_active = static_cast<size_t>(flags.queue) * 2 + 32;
  const auto server = net::HttpServer::Start(server_options, served.handler);
  if (!server.ok()) return Fail(server.status());
  served.on_start(**server);

  // Scripts wait for this line and read the port from it.
  std::printf("%s listening on %s\n", served.name.c_str(),
              (*server)->Url().c_str());
  std::fflush(stdout);
  while (!Interrupted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Log(LogLevel::kInfo, "draining; again to stop at once");
  served.set_draining();
  const size_t cut = (*server)->Stop(flags.drain_s * 1000);
  if (cut > 0) Note(FormatCount(static_cast<int>(cut)) + " requests were cut");
  return kExitOk;
}

// A remote answers: no model, no engine, no block store.
int RunRemote(const ServeFlags& flags, const std::string& key,
              const std::string& backend_key,
              const serve::HttpApiOptions& api_options,
              serve::ToolRouter* router) {
  const auto backend = MakeBackend(flags.backend, backend_key);
  if (!backend.ok()) return Fail(backend.status());
  serve::RemoteApiOptions options;
  options.model = flags.backend.model;
  options.names = flags.names;
  options.embedding_model = api_options.embedding_model;
  options.tools_mode = serve::ParseToolsMode(flags.tools_mode)
                           .value_or(serve::ToolsMode::kRoute);
  options.form = flags.backend.form();
  options.max_tools = flags.backend.tools;
  options.deadline = std::chrono::seconds(flags.deadline_s);
  options.max_requests = static_cast<size_t>(flags.queue);
  serve::Metrics metrics;
  serve::HttpApi rest(api_options, {.router = router, .metrics = &metrics});
  serve::RequestLog requests(LogRequest);
  serve::RemoteApi api(options, backend->client.get(), router, &metrics,
                       [&rest](const net::ServerRequest& request) {
                         return rest.Handle(request);
                       });
  return ServeUntilInterrupted(
      flags, key,
      {.name = options.model.empty() ? "backend" : options.model,
       .handler = [&api](const auto& request) { return api.Handle(request); },
       .set_draining = [&api] { api.SetDraining(); },
       .requests = &requests,
       .on_start =
           [&api](const net::HttpServer& server) {
             api.SetConnectionCount(ConnectionCount(server));
           }});
}

int Run(const GlobalOptions& globals, const ServeFlags& flags) {
  const auto prepare = ParseRepairFlags(flags.repair);
  if (!prepare.ok()) return Fail(prepare.status());
  const auto key = ApiKey(flags.key);
  if (!key.ok()) return Fail(key.status());
  if (const Status allowed = CheckPublic("--host", flags.host, *key, flags.key);
      !allowed.ok()) {
    return Fail(allowed);
  }
  for (const std::string& origin : flags.origins) {
    const Status usable = net::CheckOrigin(origin);
    if (!usable.ok()) return Fail(usable.WithContext("--allow-origin"));
  }
  const std::string backend_key =
      flags.backend.is_set() ? TakeBackendKey(flags.backend) : "";
  serve::HttpApiOptions api_options;
  if (!globals.mcp_files.empty() || !globals.tools_file.empty()) {
    auto source = LoadTools(globals);
    if (!source.ok()) return Fail(source.status());
    api_options.registry = std::move(source->tools);
  }
  const auto router = MakeToolRouter(globals, &api_options.embedding_model);
  if (!router.ok()) return Fail(router.status());
  if (flags.backend.is_set()) {
    return RunRemote(flags, *key, backend_key, api_options, router->get());
  }
  if (flags.pull) {
    const Status brought = BringModel(globals.model);
    if (!brought.ok()) return Fail(brought);
  }
  const auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  std::unique_ptr<engine::StepBatch> batch;
  if (flags.parallel > 1) {
    auto made = engine::StepBatch::Create(engine->get(), flags.parallel);
    if (!made.ok()) return Fail(made.status().WithContext("--parallel"));
    batch = *std::move(made);
    Note("answering up to " + std::to_string(flags.parallel) +
         " requests at once: under load answers aren't the same to the bit");
  }

  serve::Metrics metrics;
  serve::ChatServiceOptions chat_options;
  chat_options.tools_mode = serve::ParseToolsMode(flags.tools_mode)
                                .value_or(serve::ToolsMode::kRoute);
  chat_options.hybrid.tools = flags.hybrid_tools;
  chat_options.prepare = *prepare;
  chat_options.sessions.max_sessions = flags.sessions;
  chat_options.batch = batch.get();
  chat_options.scheduler.max_waiting = static_cast<size_t>(flags.queue);
  chat_options.idle_work = flags.idle_work;
  chat_options.audit_every = flags.audit;
  chat_options.on_audit = [&](const serve::AuditOutcome& outcome) {
    metrics.ObserveAudit(outcome);
    LogAudit(outcome);
  };
  serve::RequestLog requests(LogRequest);
  chat_options.on_outcome = [&](const serve::ChatOutcome& outcome) {
    metrics.ObserveChat(outcome);
    requests.NoteChat(outcome);
  };
  std::unique_ptr<serve::SessionStore> kept;
  if (!flags.session_dir.empty()) {
    auto opened =
        serve::SessionStore::Open(FileSystem::Default(), flags.session_dir);
    if (!opened.ok()) return Fail(opened.status());
    kept = *std::move(opened);
  }
  serve::ChatService chat(engine->get(), router->get(), chat_options);
  if (kept != nullptr) NoteSessions("taken up", chat.LoadSessions(*kept));

  api_options.model = ModelName(globals);
  api_options.names = flags.names;
  api_options.deadline = std::chrono::seconds(flags.deadline_s);
  api_options.tools_mode = chat_options.tools_mode;
  serve::HttpApi api(api_options, {.engine = engine->get(),
                                   .chat = &chat,
                                   .router = router->get(),
                                   .metrics = &metrics});

  const int code = ServeUntilInterrupted(
      flags, *key,
      {.name = api_options.model,
       .handler = [&api](const auto& request) { return api.Handle(request); },
       .set_draining = [&api] { api.SetDraining(); },
       .requests = &requests,
       .on_start =
           [&api](const net::HttpServer& server) {
             api.SetConnectionCount(ConnectionCount(server));
           }});
  chat.Stop();
  if (kept != nullptr) {
    const auto saved = chat.SaveSessions(*kept);
    if (!saved.ok()) return Fail(saved.status());
    NoteSessions("kept", *saved);
  }
  return code;
}

}  // namespace

void AddServeCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "serve", "Serve OpenAI's chat API, with routed and spliced tools");
  auto flags = std::make_shared<ServeFlags>();
  command
      ->add_option("--host", flags->host,
                   "Address to listen on; other than loopback only with a key")
      ->envname("NEXUS_HOST")
      ->capture_default_str();
  command->add_option("--port", flags->port, "Port; 0: any free one")
      ->envname("NEXUS_PORT")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  AddKeyFlags(command, &flags->key);
  command
      ->add_option("--allow-origin", flags->origins,
                   "Origin of a web page that may use the server from a "
                   "browser, as https://app.example; may be given several "
                   "times")
      ->type_name("ORIGIN");
  command->add_option("--alias", flags->names,
                      "Another name that requests may give the model");
  command
      ->add_option(
          "--tools-mode", flags->tools_mode,
          "route: the router picks one of a request's tools; pin: all "
          "of them stand in the context and the model chooses; hybrid: "
          "the best few do, and a tool that finds the others")
      ->check(CLI::IsMember({"route", "pin", "hybrid"}))
      ->capture_default_str();
  command
      ->add_option("--hybrid-tools", flags->hybrid_tools,
                   "Tools that mode hybrid lists for a message")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command
      ->add_option("--sessions", flags->sessions,
                   "Conversations whose cells are held; each takes memory for "
                   "--ctx tokens")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--parallel", flags->parallel,
                   "Requests answered at once, a token of each in one decode: "
                   "more answers a second, but no longer the same to the bit. "
                   "Each takes memory for --ctx tokens, and a session")
      ->type_name("N")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--queue", flags->queue,
                   "Requests that may wait; more get 429")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command
      ->add_option("--deadline", flags->deadline_s,
                   "Longest time for a request, in seconds")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  command
      ->add_option("--max-body", flags->max_body_mb,
                   "Longest body of a request, in MiB")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--drain", flags->drain_s,
                   "How long SIGTERM waits for requests at work, in seconds")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  command->add_flag("!--no-pull", flags->pull,
                    "Don't bring the model's weights if they aren't here");
  command->add_option("--session-dir", flags->session_dir,
                      "Folder that keeps the conversations' cells when the "
                      "server ends, for its next start");
  command->add_flag("!--no-idle", flags->idle_work,
                    "Do nothing for the next turn between requests");
  command
      ->add_option("--audit", flags->audit,
                   "Prefill one spliced answer in N again, when nobody waits, "
                   "and demote what broke its budget; 0: none")
      ->type_name("N")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_flag(
      "!--no-learn", globals->learn,
      "Don't fold what is decoded as text into the stored blocks");
  AddBackendFlags(command, &flags->backend);
  AddToolFlags(command, globals.get());
  AddTierFlag(command, &flags->repair);
  AddRepairFlags(command, &flags->repair);
  AddModelFlags(command, globals.get());
  AddRouteFlags(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
