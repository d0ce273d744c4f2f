#include "nexus/cli/encoder_memory.h"

#include "nexus/base/file_system.h"
#include "nexus/cli/terminal.h"

namespace nexus::cli {

void EncoderMemory::Save() const {
  if (cache.empty() || memo == nullptr || memo->embedded_count() == 0) return;
  const Status saved = memo->Save(FileSystem::Default(), cache);
  if (!saved.ok()) Note(saved.message());
}

Result<EncoderMemory> LoadEncoderMemory(const std::string& path, int threads,
                                        const std::string& cache) {
  EncoderMemory memory;
  if (path.empty()) return memory;
  memory.cache = cache;
  llm::EncoderOptions options;
  options.path = path;
  options.threads = threads;
  NEXUS_ASSIGN_OR_RETURN(memory.encoder, llm::LoadEncoder(options));
  memory.memo = std::make_unique<eval::MemoEmbedder>(memory.encoder.get());
  if (cache.empty()) return memory;
  const Status loaded = memory.memo->Load(FileSystem::Default(), cache);
  if (!loaded.ok() && loaded.code() != StatusCode::kNotFound) {
    Note(loaded.message() + "; made anew");
  }
  return memory;
}

void RerankerMemory::Save() const {
  if (cache.empty() || memo == nullptr || memo->scored_count() == 0) return;
  const Status saved = memo->Save(FileSystem::Default(), cache);
  if (!saved.ok()) Note(saved.message());
}

Result<RerankerMemory> LoadRerankerMemory(const std::string& path, int threads,
                                          const std::string& cache) {
  RerankerMemory memory;
  if (path.empty()) return memory;
  NEXUS_ASSIGN_OR_RETURN(memory.reranker,
                         llm::LoadReranker({.path = path, .threads = threads}));
  memory.memo = std::make_unique<eval::MemoReranker>(memory.reranker.get());
  if (cache.empty()) return memory;
  memory.cache = cache + ".pairs";
  const Status loaded = memory.memo->Load(FileSystem::Default(), memory.cache);
  if (!loaded.ok() && loaded.code() != StatusCode::kNotFound) {
    Note(loaded.message() + "; made anew");
  }
  return memory;
}

void AddEncoderMemoryFlags(CLI::App* command, GlobalOptions* globals,
                           std::string* cache) {
  command
      ->add_option("--cache", *cache, "Keep embeddings here for the next run")
      ->type_name("FILE");
  command
      ->add_option("--threads", globals->threads,
                   "Threads for the encoder; 0: one")
      ->check(CLI::Range(0, 1024));
}

}  // namespace nexus::cli
