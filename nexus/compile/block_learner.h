// BlockLearner: blocks from traffic.
//
// Whenever the engine decodes a tool's schema as text, the cells are a sample
// of that schema in a real context, for nothing. Folded into the stored block's
// running mean they make it fit the contexts that occur; a tool that was never
// compiled gets its first block from its first use.
//
// A block file never changes: each fold writes the next generation beside the
// newest and drops the older ones once it is in place, so a block that is
// mapped stays what it was. When the new file can't be written the old one
// stays and only the sample is lost. The next generation is stored as the one
// before; of 4-bit keys there is none: a sample moves a mean by a 32nd, less
// than half a step of theirs, and would be lost in the rounding.
#ifndef NEXUS_COMPILE_BLOCK_LEARNER_H_
#define NEXUS_COMPILE_BLOCK_LEARNER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "nexus/base/result.h"
#include "nexus/compile/block_compiler.h"
#include "nexus/kv/block_reader.h"
#include "nexus/llm/kv_access.h"
#include "nexus/schema/schema_frame.h"

namespace nexus::compile {

// Recipe of blocks that began with traffic: "traffic-chatml".
std::string TrafficRecipeName(const schema::SchemaFrame& frame);

struct LearnRequest {
  llm::SequenceId sequence = 0;
  // Of the block's first token. Not 0: there the token would be the attention
  // sink, which it is nowhere else.
  llm::Position position = 0;
  std::span<const llm::Token> tokens;  // decoded there, as text and exactly
  std::string recipe;                  // of the block that takes the sample
  std::string tool_name;               // these two for a first block
  std::string schema_hash;
};

struct LearnReport {
  int samples = 0;  // behind the block now; 0: nothing was learned
  int generation = 0;
  uint64_t file_bytes = 0;
  double elapsed_ms = 0;
  std::string reason;  // why nothing was learned, where that is no error
};

// Folds the cells of a sequence into the newest generation of the block of
// these tokens and this recipe, or makes its first one. Processes and threads
// that share a store take turns.
//
// kNotFound: the sequence doesn't hold all of the cells; kInvalidArgument: not
// a place or not a block to learn from; kIncompatible: the newest
// generation is another Nexus's; errors of the store (full or read-only disk)
// leave it as it was.
Result<LearnReport> LearnBlock(const CompileEnvironment& environment,
                               const LearnRequest& request);

// The cells as a block of this one sample, which is the caller's alone
// (BlockStore::WritePrivate): what a conversation keeps of itself must neither
// change what others splice nor push their blocks out. Errors as LearnBlock.
Result<std::shared_ptr<const kv::KvBlock>> KeepSample(
    const CompileEnvironment& environment, const LearnRequest& request);

}  // namespace nexus::compile

#endif  // NEXUS_COMPILE_BLOCK_LEARNER_H_
