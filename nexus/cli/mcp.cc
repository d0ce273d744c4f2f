#include "nexus/cli/mcp.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <thread>
#include <utility>

#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/listen.h"
#include "nexus/cli/terminal.h"
#include "nexus/gateway/gateway.h"
#include "nexus/gateway/http_front.h"
#include "nexus/gateway/stdio_server.h"
#include "nexus/mcp/config.h"
#include "nexus/net/http_server.h"

namespace nexus::cli {
namespace {

struct McpFlags {
  std::vector<std::string> configs;
  std::string expose = "find";
  gateway::AccessRules rules;
  std::string http;
  KeyFlags key;
  int drain_s = 10;
};

// One of those that --expose allows.
gateway::Expose ParseExpose(const std::string& name) {
  if (name == "all") return gateway::Expose::kAll;
  return name == "routed" ? gateway::Expose::kRouted : gateway::Expose::kFind;
}

struct Address {
  std::string host;
  int port = 0;
};

Result<Address> ParseAddress(const std::string& text) {
  const auto wrong = [&](const char* what) {
    return InvalidArgumentError("--http " + text + ": " + what +
                                "; write HOST:PORT, such as 127.0.0.1:8765");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong("no port");
  Address address{.host = text.substr(0, colon)};
  const char* end = text.data() + text.size();
  const auto [rest, error] =
      std::from_chars(text.data() + colon + 1, end, address.port);
  if (error != std::errc() || rest != end || address.port < 0 ||
      address.port > 65535) {
    return wrong("the port is no number from 0 to 65535");
  }
  if (address.host.size() > 2 && address.host.front() == '[' &&
      address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (address.host.empty()) return wrong("no host");
  return address;
}

Result<std::vector<mcp::McpServerConfig>> ReadConfigs(
    const std::vector<std::string>& files) {
  if (files.empty()) {
    return InvalidArgumentError(
        "no servers: give --config FILE, an mcpServers JSON as desktop clients "
        "have it");
  }
  std::vector<mcp::McpServerConfig> servers;
  for (const std::string& file : files) {
    NEXUS_ASSIGN_OR_RETURN(auto more, mcp::ReadMcpConfigFile(file));
    std::move(more.begin(), more.end(), std::back_inserter(servers));
  }
  return servers;
}

int ServeStdio(gateway::Gateway* gateway) {
  if (::isatty(STDIN_FILENO) != 0) {
    Note(
        "an MCP client starts this and speaks JSON-RPC over standard input "
        "and output; `nexus mcp --help` says how it is configured");
  }
  const Status status = gateway::ServeStdio(
      gateway, {.version = NEXUS_VERSION, .stop = &Interrupted()});
  return status.ok() ? kExitOk : Fail(status);
}

int ServeHttp(gateway::Gateway* gateway, const Address& address,
              const std::string& key, int drain_s) {
  gateway::HttpFront front(gateway, {.version = NEXUS_VERSION});
  RaiseFileLimit();
  net::HttpServerOptions options;
  options.host = address.host;
  options.port = address.port;
  options.max_body_bytes = gateway::kMaxClientMessageBytes;
  options.bearer_token = key;
  options.error_body = gateway::HttpFront::ErrorBody;
  // A stream for each session, a thread for each request, and some to refuse.
  const gateway::HttpFrontOptions defaults;
  options.max_active = defaults.max_sessions + defaults.max_requests + 32;
  auto server = net::HttpServer::Start(
      options, [&front](const net::ServerRequest& request) {
        return front.Handle(request);
      });
  if (!server.ok()) return Fail(server.status());
  // Scripts wait for this line and read the port from it.
  std::printf("MCP gateway listening on %s\n",
              (*server)->Url(gateway::kHttpPath).c_str());
  std::fflush(stdout);
  while (!Interrupted()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  Note("draining; again to stop at once");
  front.SetDraining();
  const size_t cut = (*server)->Stop(drain_s * 1000);
  if (cut > 0) Note(FormatCount(static_cast<int>(cut)) + " requests were cut");
  return kExitOk;
}

int Run(GlobalOptions globals, const McpFlags& flags) {
  // find_tool shows the candidates of a close call and leaves them to the
  // client's model, which reads them anyhow.
  globals.reranker = "none";
  auto servers = ReadConfigs(flags.configs);
  if (!servers.ok()) return Fail(servers.status());
  // Taken in any case, so that no server inherits it.
  const auto key = ApiKey(flags.key);
  if (!key.ok()) return Fail(key.status());
  Address address;
  if (!flags.http.empty()) {
    const auto parsed = ParseAddress(flags.http);
    if (!parsed.ok()) return Fail(parsed.status());
    address = *parsed;
    if (const Status allowed =
            CheckPublic("--http", address.host, *key, flags.key);
        !allowed.ok()) {
      return Fail(allowed);
    }
  }

  gateway::GatewayOptions options;
  options.servers = std::move(servers).value();
  options.upstream.client.client_version = NEXUS_VERSION;
  options.expose = ParseExpose(flags.expose);
  options.tools.rules = flags.rules;
  options.note = [](const std::string& line) { Note(OneLine(line)); };
  std::unique_ptr<llm::Embedder> embedder;
  // Without find_tool nobody searches.
  if (flags.expose != "all") {
    RoutingEncoder encoder = LoadRoutingEncoder(globals);
    if (encoder.embedder == nullptr) {
      if (!globals.encoder.empty()) return Fail(encoder.problem);
      Note("find_tool goes by words only: " + encoder.problem.message());
    } else {
      embedder = std::move(encoder.embedder);
      options.embedder = embedder.get();
      options.tools.router = encoder.router;
      options.tools.embedding_cache = EmbeddingCachePath();
    }
  }
  const auto gateway = gateway::Gateway::Create(std::move(options));
  if (!gateway.ok()) return Fail(gateway.status());
  return flags.http.empty()
             ? ServeStdio(gateway->get())
             : ServeHttp(gateway->get(), address, *key, flags.drain_s);
}

}  // namespace

void AddMcpCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<McpFlags>();
  CLI::App* command = app->add_subcommand(
      "mcp", "Be one MCP server in front of many: find_tool and call_tool");
  command->footer(
      "Speaks MCP over standard input and output, for clients that start "
      "their servers:\n"
      "  {\"mcpServers\": {\"nexus\": {\"command\": \"nexus\",\n"
      "     \"args\": [\"mcp\", \"--config\", \"/path/to/servers.json\"]}}}\n"
      "or over streamable HTTP with --http. The servers of --config are "
      "started, watched, and\nstarted anew when they end; no language model is "
      "needed. docs/mcp.md says more.");
  command
      ->add_option("--config,--mcp", flags->configs,
                   "The servers behind: mcpServers JSON, as desktop clients "
                   "use it; may be given several times")
      ->envname("NEXUS_MCP")
      ->type_name("FILE");
  command
      ->add_option("--expose", flags->expose,
                   "find: only find_tool and call_tool; routed: also the tools "
                   "that find_tool found in this conversation; all: every "
                   "tool, named server__tool")
      ->check(CLI::IsMember({"find", "routed", "all"}))
      ->capture_default_str();
  command
      ->add_option("--allow", flags->rules.allow,
                   "Only what matches this glob on server/tool, such as "
                   "'files/read_*'; may be given several times")
      ->type_name("GLOB");
  command
      ->add_option("--deny", flags->rules.deny,
                   "Not what matches this glob; stronger than --allow")
      ->type_name("GLOB");
  command->add_flag("--read-only", flags->rules.read_only,
                    "Only tools whose server says that they change nothing "
                    "(readOnlyHint: true)");
  command
      ->add_option("--http", flags->http,
                   "Listen here for MCP over HTTP, at /mcp; port 0: any free "
                   "one. Other than loopback only with a key")
      ->type_name("HOST:PORT");
  AddKeyFlags(command, &flags->key);
  command
      ->add_option("--drain", flags->drain_s,
                   "How long SIGTERM waits for requests over HTTP, in seconds")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  AddFirstLookFlags(command, globals.get());
  command
      ->add_option("--threads", globals->threads,
                   "Threads for the encoder; 0: one")
      ->check(CLI::Range(0, 1024));
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
