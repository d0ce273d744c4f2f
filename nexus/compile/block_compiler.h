// BlockCompiler: tool tokens -> KV blocks in the store.
//
// One tool after the other, behind every compile context: place the context,
// decode the tool, read the rows, empty the sequence. The cells of the contexts
// are read once and written back for the next tool, so going tool by tool costs
// no decoding, and each tool is in the store as soon as it is done: a run that
// was interrupted goes on with the first tool that isn't.
#ifndef NEXUS_COMPILE_BLOCK_COMPILER_H_
#define NEXUS_COMPILE_BLOCK_COMPILER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/compile/compile_contexts.h"
#include "nexus/kv/block_store.h"
#include "nexus/kv/fingerprint.h"
#include "nexus/llm/context.h"
#include "nexus/llm/kv_access.h"
#include "nexus/llm/rope_probe.h"

namespace nexus::compile {

// What the compiler works with. All must outlive the call. `context` is used
// alone: its sequence 0 must be empty and is left empty.
struct CompileEnvironment {
  llm::Context* context = nullptr;
  llm::KvAccess* access = nullptr;
  const llm::RopeSpec* rope = nullptr;
  kv::BlockStore* store = nullptr;
  kv::Fingerprint fingerprint;
};

struct CompileJob {
  std::string tool_name;           // for people and reports
  std::string schema_hash;         // hex
  std::vector<llm::Token> tokens;  // frame and schema, as they will be spliced
};

struct CompileProgress {
  int done = 0;  // tools in the store, those found there included
  int total = 0;
  int64_t tokens_done = 0;  // decoded so far, contexts included
  int64_t tokens_total = 0;
  double elapsed_s = 0;
  double eta_s = 0;     // < 0: not known yet
  std::string current;  // context and tool at work
};

struct CompileOptions {
  std::string recipe;  // RecipeName(), part of the block's address
  // For the cells of the contexts. A context that finds no room in it (or is
  // longer than the model's sliding window) is decoded anew for each tool.
  size_t memory_bytes = size_t{1} << 30;
  // Compiles even what the store has (the block there is replaced).
  bool recompile = false;
  // Of the blocks that are written; one that is there keeps its own.
  kv::BlockStorage storage = {};
  std::function<void(const CompileProgress&)> progress;
  // Looked at between decode calls; the context's own Cancel works within them.
  const std::atomic<bool>* cancel = nullptr;
};

struct CompileFailure {
  std::string tool_name;
  Status status;
};

struct CompileReport {
  int compiled = 0;
  int already_present = 0;
  int stored_otherwise = 0;  // of those, in another storage than asked for
  std::vector<CompileFailure> failures;
  int64_t tokens_decoded = 0;
  uint64_t bytes_written = 0;
  double elapsed_s = 0;
};

// A tool that can't be compiled (longer than the context, no tokens) is a
// failure in the report and doesn't stop the others. kCancelled: what was
// finished is stored. kResourceExhausted (disk full) and other errors of the
// store stop the run.
Result<CompileReport> CompileBlocks(const CompileEnvironment& environment,
                                    std::span<const CompileContext> contexts,
                                    std::span<const CompileJob> jobs,
                                    const CompileOptions& options);

struct VariantRequest {
  llm::SequenceId sequence = 0;
  std::span<const llm::Token> preceding;  // every token before the block
  std::span<const llm::Token> tokens;     // the block, right behind them
  std::string tool_name;
  std::string schema_hash;
};

// `rows`, the cells of request.tokens, as a file's contents: views of the rows,
// the tokens and the access's layout. The environment needs no store.
kv::BlockContents VariantContents(const CompileEnvironment& environment,
                                  const VariantRequest& request,
                                  const llm::KvRows& rows);

// Stores the session's own cells of the block as an exact variant. kNotFound
// when a sliding window has dropped some of them; kInvalidArgument when the
// sequence is shorter.
Result<std::shared_ptr<const kv::KvBlock>> MakeVariant(
    const CompileEnvironment& environment, const VariantRequest& request);

}  // namespace nexus::compile

#endif  // NEXUS_COMPILE_BLOCK_COMPILER_H_
