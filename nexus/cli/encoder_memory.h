// An encoder that embeds each text once, within a run and, with a cache file,
// from run to run: for commands that ask about thousands of texts.
#ifndef NEXUS_CLI_ENCODER_MEMORY_H_
#define NEXUS_CLI_ENCODER_MEMORY_H_

#include <memory>
#include <string>

#include "CLI/CLI.hpp"

#include "nexus/base/result.h"
#include "nexus/cli/common.h"
#include "nexus/eval/memo_embedder.h"
#include "nexus/eval/memo_reranker.h"
#include "nexus/llm/embedder.h"
#include "nexus/llm/reranker.h"

namespace nexus::cli {

struct EncoderMemory {
  std::unique_ptr<llm::Embedder> encoder;  // null: there was no path
  std::unique_ptr<eval::MemoEmbedder> memo;
  std::string cache;

  // Also after Ctrl-C: what is embedded needn't be again. A file that can't be
  // written is noted.
  void Save() const;
};

// `cache` empty: none; one that is damaged or another encoder's is noted and
// made anew.
Result<EncoderMemory> LoadEncoderMemory(const std::string& path, int threads,
                                        const std::string& cache = {});

// The same for a cross-encoder; its scores are kept in CACHE.pairs.
struct RerankerMemory {
  std::unique_ptr<llm::Reranker> reranker;  // null: there was no path
  std::unique_ptr<eval::MemoReranker> memo;
  std::string cache;

  void Save() const;
};
Result<RerankerMemory> LoadRerankerMemory(const std::string& path, int threads,
                                          const std::string& cache = {});

// --cache, --threads.
void AddEncoderMemoryFlags(CLI::App* command, GlobalOptions* globals,
                           std::string* cache);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_ENCODER_MEMORY_H_
