// Model: weights, vocabulary and metadata of one GGUF file.
//
// nexus/llm is the only folder that sees llama.h; handles cross this header as
// forward-declared pointers.
#ifndef NEXUS_LLM_MODEL_H_
#define NEXUS_LLM_MODEL_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/base/result.h"

struct llama_model;

namespace nexus::llm {

class VocabularyIndex;

using Token = int32_t;
using Position = int32_t;
using SequenceId = int32_t;

// Version of the engine that Nexus is built against, part of every fingerprint.
std::string EngineVersion();

// Where llama.cpp's own messages go. Libraries print nothing: the default drops
// everything; the command line installs a sink under --verbose. Thread-safe.
using LogSink = void (*)(int level, const char* text);
void SetEngineLogSink(LogSink sink);

struct ModelOptions {
  std::string path;
  int gpu_layers = 0;  // the last ones; < 0: all
  bool vocab_only = false;
  // "host:port" of llama.cpp's RPC servers: the GPU of gpu_layers, which are
  // divided among them by the memory that each has. One that goes away ends the
  // process.
  std::vector<std::string> rpc_servers = {};
};

enum class RopeKind { kNone, kAdjacentPairs, kHalfSplit, kMultimodal };

struct ModelInfo {
  std::string path;
  uint64_t file_bytes = 0;
  std::string architecture;   // "qwen2"
  std::string name;           // general.name, else the file's stem
  std::string description;    // "qwen2 0.5B Q4_K - Medium"
  std::string chat_template;  // empty: none
  int layer_count = 0;
  int embedding_size = 0;
  int head_count = 0;
  int head_count_kv = 0;
  int context_train = 0;
  int vocab_size = 0;
  int sliding_window = 0;  // tokens; 0: none
  bool recurrent = false;
  bool hybrid = false;
  bool encoder_only = false;
  RopeKind rope = RopeKind::kNone;
};

struct TokenizeOptions {
  bool add_bos = false;       // where the model wants one
  bool parse_special = true;  // "<|im_start|>" becomes one token
};

// Thread-safe after Load: everything is const.
class Model {
 public:
  // kNotFound, kCorruption (not a GGUF file, truncated), kUnimplemented (an
  // architecture that the engine doesn't know). Names the file.
  // kInvalidArgument, kUnavailable, kIncompatible: an RPC server, by its name.
  static Result<std::shared_ptr<const Model>> Load(const ModelOptions& options);

  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const ModelInfo& info() const { return info_; }
  // A GGUF metadata value as text; nullopt when absent.
  std::optional<std::string> Metadata(const std::string& key) const;

  Result<std::vector<Token>> Tokenize(
      std::string_view text, const TokenizeOptions& options = {}) const;
  // The bytes that a token stands for; special tokens are rendered as text. May
  // be a part of a UTF-8 sequence. Empty for an id outside the vocabulary.
  std::string TokenText(Token token) const;
  // The texts of the tokens joined, so that streaming them one by one gives the
  // same bytes. Vocabularies that put a space before the first word keep it.
  std::string Detokenize(std::span<const Token> tokens) const;
  bool IsEndOfGeneration(Token token) const;
  std::optional<Token> bos() const;

  int gpu_layers() const { return gpu_layers_; }
  // Built on first use (tens of milliseconds) and shared by all samplers.
  const VocabularyIndex& vocabulary() const;
  llama_model* handle() const { return handle_; }

 private:
  Model();

  llama_model* handle_ = nullptr;
  int gpu_layers_ = 0;
  mutable std::once_flag vocabulary_once_;
  mutable std::unique_ptr<VocabularyIndex> vocabulary_;
  ModelInfo info_;
};

// SHA-256 of the model file. Hashing half a gigabyte takes a second, so the
// digest is remembered beside `cache_dir` under (path, size, mtime, inode).
Result<Sha256Digest> ModelFileHash(const std::string& model_path,
                                   const std::string& cache_dir);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_MODEL_H_
