// What commands have in common: flags, where tools come from, and making an
// engine or a router out of them.
#ifndef NEXUS_CLI_COMMON_H_
#define NEXUS_CLI_COMMON_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/llm/embedder.h"
#include "nexus/llm/reranker.h"
#include "nexus/mcp/catalog.h"
#include "nexus/route/router.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::cli {

// Bumped when a field of a --json output changes its meaning or goes away.
inline constexpr int kJsonSchemaVersion = 1;

// Flags that several commands take; each has a copy of its own.
struct GlobalOptions {
  std::string model;  // name or path; empty: the default model
  std::string store;
  std::string encoder;
  // Path, "none", or empty: the one that was calibrated with the encoder.
  std::string reranker;
  std::vector<std::string> mcp_files;
  std::string tools_file;
  std::string flash_attention = "auto";
  std::string kv_type = "f16";
  // Given: the margin rule with this tau, whatever was calibrated.
  std::optional<double> tau;
  int context_tokens = 8192;
  std::vector<std::string> rpc_servers;
  int rpc_layers = -1;
  int threads = 0;
  std::string profile;
  bool learn = true;
  bool json = false;
};

// What a subcommand does once the command line is parsed; returns the exit
// code.
using Action = std::function<int()>;

// Prints "nexus: MESSAGE" on standard error and gives the exit code.
int Fail(const Status& status);
// One JSON object, with "schema_version" first, on standard output.
void PrintJson(const Json& object);

struct ToolSource {
  std::vector<schema::ToolSchema> tools;
  // Set when MCP servers are attached; null for a registry file.
  std::unique_ptr<mcp::McpCatalog> catalog;
};

// From --mcp and --tools. Servers that fail are noted on standard error and
// hide nothing of the others. kInvalidArgument when neither is given,
// kUnavailable when no tool is left.
Result<ToolSource> LoadTools(const GlobalOptions& options);

Result<std::unique_ptr<engine::Engine>> MakeEngine(
    const GlobalOptions& options);

// The committed encoder beside the program or in the source tree, or --encoder.
Result<std::string> FindEncoder(const GlobalOptions& options);

// What was calibrated for the encoder at `path`, unless --tau asks for the
// margin rule, goes into `router`.
struct RouterGate {
  std::string text;      // which and why, for people
  std::string reranker;  // path of the cross-encoder to load; empty: none
  Status problem;        // why a wanted one can't be had
};
RouterGate CalibrateOptions(const GlobalOptions& options,
                            const std::string& path,
                            const llm::Embedder& encoder,
                            route::RouterOptions* router);

// What routing goes by: the encoder, the cross-encoder, and what was calibrated
// for them.
struct RoutingEncoder {
  std::unique_ptr<llm::Embedder> embedder;  // null: BM25 only, problem says why
  std::unique_ptr<llm::Reranker> reranker;  // null: none, or problem says why
  Status problem;
  std::string path;
  route::RouterOptions router;

  // What routing does without, and why, for people; empty when it has all.
  std::string MissingNote() const;
};
RoutingEncoder LoadRoutingEncoder(const GlobalOptions& options);
// Where embeddings of tools are kept between runs.
std::string EmbeddingCachePath();

struct Routing {
  std::unique_ptr<llm::Embedder> embedder;  // null: BM25 only
  std::unique_ptr<llm::Reranker> reranker;  // may be null
  std::unique_ptr<route::Router> router;
  std::string note;  // RoutingEncoder::MissingNote
};
// Stops with kCancelled at Ctrl-C and keeps what it has embedded.
Result<Routing> MakeRouting(const GlobalOptions& options,
                            std::vector<schema::ToolSchema> tools);

// The folder of the running program; empty when it can't be found.
std::string ProgramDir();

// kNotFound names the servers there are, when `wanted` has another.
Status CheckServers(const std::vector<schema::ToolSchema>& tools,
                    const std::vector<std::string>& wanted);

// A number within [low, high]; CLI11's own Range lets "nan" through.
CLI::Validator FiniteRange(double low, double high);

// Lets Ctrl-C reach a context that is decoding, as long as it lives.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(llm::Context* context);
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  std::atomic<bool> done_{false};
  std::thread watcher_;
};

// Flags of `engine::PrepareOptions`, as ask and bench take them.
struct RepairFlags {
  std::string tier = "auto";
  std::string policy;
  std::string budget;
  double recompute_percent = -1;
};
void AddTierFlag(CLI::App* command, RepairFlags* flags);
void AddRepairFlags(CLI::App* command, RepairFlags* flags);
Result<engine::PrepareOptions> ParseRepairFlags(const RepairFlags& flags);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_COMMON_H_
