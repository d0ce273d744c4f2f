// The flags of all commands together, and the list of commands.
#include "nexus/cli/app.h"

#include <cstdlib>
#include <memory>

#include "nexus/cli/config_file.h"
#include "nexus/cli/definition.h"
#include "nexus/cli/mcp.h"
#include "nexus/llm/model.h"
#include "nexus/pull/model_catalog.h"

namespace nexus::cli {

void AddToolFlags(CLI::App* command, GlobalOptions* globals) {
  command
      ->add_option("--mcp", globals->mcp_files,
                   "mcpServers JSON file, as desktop clients use it; may be "
                   "given several times")
      ->envname("NEXUS_MCP")
      ->type_name("FILE");
  command
      ->add_option(
          "--tools,--registry", globals->tools_file,
          "Registry: JSON lines of MCP tools or OpenAI functions, or a "
          "tools/list result")
      ->envname("NEXUS_TOOLS")
      ->type_name("FILE");
}

void AddModelFlags(CLI::App* command, GlobalOptions* globals) {
  command
      ->add_option("-m,--model", globals->model,
                   "Model: a name (" + pull::KnownModelNames() +
                       ") or the path of a GGUF file [" +
                       pull::DefaultModel().name + "]")
      ->envname("NEXUS_MODEL")
      ->type_name("MODEL");
  command
      ->add_option("--store", globals->store,
                   "Folder of compiled blocks [blocks in the user's cache]")
      ->envname("NEXUS_STORE")
      ->type_name("DIR");
  command
      ->add_option("--ctx", globals->context_tokens, "Context length in tokens")
      ->envname("NEXUS_CTX")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--threads", globals->threads,
                   "Threads for inference; 0: one per core")
      ->envname("NEXUS_THREADS")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      ->add_option("--rpc", globals->rpc_servers,
                   "Servers (ggml-rpc-server of the same llama.cpp) that hold "
                   "the model's layers and compute them; in a network that you "
                   "trust")
      ->envname("NEXUS_RPC")
      ->type_name("HOST:PORT")
      ->delimiter(',');
  command
      ->add_option("--rpc-layers", globals->rpc_layers,
                   "How many layers they have, counted from the last; -1: all")
      ->check(CLI::Range(-1, 10000))
      ->capture_default_str();
  command
      ->add_option("--flash-attention", globals->flash_attention,
                   "on, off, or auto: measured once on this machine")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command
      ->add_option("--profile", globals->profile,
                   "Calibrated profile to use [the one of this model, if there "
                   "is one]")
      ->type_name("FILE");
  command->add_option("--kv-type", globals->kv_type, "Element type of KV cells")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str();
}

void AddFirstLookFlags(CLI::App* command, GlobalOptions* globals) {
  command
      ->add_option("--encoder", globals->encoder,
                   "Encoder GGUF for routing [the one that comes with nexus]")
      ->envname("NEXUS_ENCODER")
      ->type_name("FILE");
  command
      ->add_option("--tau", globals->tau,
                   "Gate by the margin rule: route when the best tool is ahead "
                   "by this cosine [what was calibrated for the encoder, else "
                   "0.0136]")
      ->check(FiniteRange(0, 2));
}

void AddRouteFlags(CLI::App* command, GlobalOptions* globals) {
  AddFirstLookFlags(command, globals);
  command
      ->add_option("--reranker", globals->reranker,
                   "Cross-encoder GGUF that reads the candidates of a close "
                   "call, or none [the one that was calibrated with the "
                   "encoder]")
      ->envname("NEXUS_RERANKER")
      ->type_name("FILE");
}

void AddJsonFlag(CLI::App* command, GlobalOptions* globals) {
  command->add_flag("--json", globals->json,
                    "One JSON object on standard output");
}

std::unique_ptr<CLI::App> BuildApp(Action* action, ProgramFlags* flags) {
  auto owner = std::make_unique<CLI::App>(
      "Nexus: routes tool calls outside the context and splices compiled "
      "schemas into it.",
      "nexus");
  CLI::App* app = owner.get();
  app->set_version_flag(
      "--version", "nexus " NEXUS_VERSION " (" + llm::EngineVersion() + ")");
  app->config_formatter(std::make_shared<ConfigFile>(app));
  // CLI11 looks at the environment only after it has read the file. A file that
  // is named there has to be there.
  const char* named = std::getenv("NEXUS_CONFIG");
  const bool is_named = named != nullptr && *named != '\0';
  app->set_config("--config", is_named ? named : DefaultConfigPath(),
                  "TOML or JSON file with defaults for any flag", is_named)
      ->envname("NEXUS_CONFIG");
  app->allow_config_extras(false);
  app->add_flag("-v,--verbose", flags->verbose,
                "Also show the inference engine's own log");
  app->add_option("--log-level", flags->log_level,
                  "Least important lines to show on standard error: error, "
                  "warn, info, or debug, which is --verbose")
      ->envname("NEXUS_LOG_LEVEL")
      ->check(CLI::IsMember({"error", "warn", "info", "debug"}))
      ->capture_default_str();
  app->add_option("--log-format", flags->log_format,
                  "text, or json: one object a line")
      ->envname("NEXUS_LOG_FORMAT")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app->require_subcommand(0, 1);
  app->fallthrough();
  AddPullCommand(app, action);
  AddToolsCommand(app, action);
  AddCompileCommand(app, action);
  AddInspectCommand(app, action);
  AddRouteCommand(app, action);
  AddAskCommand(app, action);
  AddServeCommand(app, action);
  AddMcpCommand(app, action);
  AddBenchCommand(app, action);
  AddEvalCommand(app, action);
  AddCalibrateCommand(app, action);
  AddCalibrateRouterCommand(app, action);
  AddDoctorCommand(app, action);
  AddDefinitionCommands(app, action);
  // After the commands: they would inherit it.
  app->footer(
      "First steps:\n"
      "  nexus pull                          bring the default model (491 MB)\n"
      "  nexus tools --mcp FILE              what the servers offer, in "
      "tokens\n"
      "  nexus compile --mcp FILE            schemas -> KV blocks\n"
      "  nexus ask \"...\" --mcp FILE --execute\n"
      "  nexus serve                         OpenAI's chat API on port 8080\n"
      "  nexus mcp --config FILE             one MCP server for many\n"
      "`nexus COMMAND --help` says more. Exit codes: 0 ok, 1 internal or "
      "refused, 2 wrong input,\n3 not found, 4 damaged or incompatible, 5 "
      "system, 6 server unavailable, 7 no tool fits,\n8 the tool reported an "
      "error or the call is invalid, 130 interrupted.");
  return owner;
}

}  // namespace nexus::cli
