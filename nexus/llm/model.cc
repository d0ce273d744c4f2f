#include "nexus/llm/model.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <utility>

#include "llama.h"

#include "nexus/base/mapped_file.h"
#include "nexus/llm/engine_log.h"
#include "nexus/llm/gguf_check.h"
#include "nexus/llm/rpc_devices.h"
#include "nexus/llm/vocabulary_index.h"

namespace nexus::llm {
namespace {

RopeKind ToRopeKind(llama_rope_type type) {
  switch (type) {
    case LLAMA_ROPE_TYPE_NORM:
      return RopeKind::kAdjacentPairs;
    case LLAMA_ROPE_TYPE_NEOX:
      return RopeKind::kHalfSplit;
    case LLAMA_ROPE_TYPE_MROPE:
    case LLAMA_ROPE_TYPE_IMROPE:
    case LLAMA_ROPE_TYPE_VISION:
      return RopeKind::kMultimodal;
    case LLAMA_ROPE_TYPE_NONE:
      break;
  }
  return RopeKind::kNone;
}

ModelInfo Describe(const Model& model, const std::string& path,
                   uint64_t file_bytes) {
  const llama_model* handle = model.handle();
  ModelInfo info;
  info.path = path;
  info.file_bytes = file_bytes;
  info.architecture = model.Metadata("general.architecture").value_or("");
  info.name = model.Metadata("general.name")
                  .value_or(std::filesystem::path(path).stem().string());
  char description[256] = "";
  llama_model_desc(handle, description, sizeof(description));
  info.description = description;
  if (const char* text = llama_model_chat_template(handle, nullptr)) {
    info.chat_template = text;
  }
  info.layer_count = llama_model_n_layer(handle);
  info.embedding_size = llama_model_n_embd(handle);
  // The engine aborts when asked for the heads of a model without layers, as
  // one loaded for its vocabulary alone is.
  if (info.layer_count > 0) {
    info.head_count = llama_model_n_head(handle);
    info.head_count_kv = llama_model_n_head_kv(handle);
  }
  info.context_train = llama_model_n_ctx_train(handle);
  info.vocab_size = llama_vocab_n_tokens(llama_model_get_vocab(handle));
  info.sliding_window = llama_model_n_swa(handle);
  info.recurrent = llama_model_is_recurrent(handle);
  info.hybrid = llama_model_is_hybrid(handle);
  // llama_model_has_decoder() says true for BERT.
  info.encoder_only =
      !llama_model_has_decoder(handle) ||
      model.Metadata(info.architecture + ".attention.causal") == "false";
  info.rope = ToRopeKind(llama_model_rope_type(handle));
  return info;
}

Status LoadFailed(const std::string& path, const EngineLogCapture& log) {
  const std::string reason =
      path + ": the engine refuses it: " + log.LastErrors();
  if (log.Contains("unknown model architecture")) {
    return UnimplementedError(reason + "; " + EngineVersion() +
                              " doesn't know this kind of model, use another");
  }
  if (log.Contains("failed to allocate") ||
      log.Contains("unable to allocate")) {
    return ResourceExhaustedError(reason +
                                  "; free memory or use a smaller model");
  }
  return CorruptionError(reason + "; fetch the file again");
}

}  // namespace

std::string EngineVersion() {
  return std::string("llama.cpp ") + llama_version();
}

Result<std::shared_ptr<const Model>> Model::Load(const ModelOptions& options) {
  InitEngine();
  uint64_t file_bytes = 0;
  {
    auto file = MappedFile::Open(options.path);
    if (!file.ok()) return file.status().WithContext("model");
    NEXUS_ASSIGN_OR_RETURN(GgufSummary summary,
                           CheckGguf(file->bytes(), options.path));
    file_bytes = file->bytes().size();
  }
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options.gpu_layers;
  params.vocab_only = options.vocab_only;
  // Not the engine's own list: an encoder that is loaded later has no part in
  // these servers.
  NEXUS_ASSIGN_OR_RETURN(std::vector<ggml_backend_device*> devices,
                         RpcDevices(options.rpc_servers));
  devices.push_back(nullptr);
  if (devices.size() > 1) params.devices = devices.data();
  EngineLogCapture log;
  llama_model* handle = nullptr;
  try {
    handle = llama_model_load_from_file(options.path.c_str(), params);
  } catch (const std::exception& e) {
    return CorruptionError(options.path + ": the engine refuses it: " +
                           e.what() + "; fetch the file again");
  }
  if (handle == nullptr) return LoadFailed(options.path, log);
  std::shared_ptr<Model> model(new Model());
  model->handle_ = handle;
  model->gpu_layers_ = options.gpu_layers;
  model->info_ = Describe(*model, options.path, file_bytes);
  return std::shared_ptr<const Model>(std::move(model));
}

Model::Model() = default;

Model::~Model() {
  if (handle_ != nullptr) llama_model_free(handle_);
}

std::optional<std::string> Model::Metadata(const std::string& key) const {
  const int length = llama_model_meta_val_str(handle_, key.c_str(), nullptr, 0);
  if (length < 0) return std::nullopt;
  std::string value(static_cast<size_t>(length) + 1, '\0');
  llama_model_meta_val_str(handle_, key.c_str(), value.data(), value.size());
  value.resize(static_cast<size_t>(length));
  return value;
}

Result<std::vector<Token>> Model::Tokenize(
    std::string_view text, const TokenizeOptions& options) const {
  // Leaves room for a prefix and for the engine's 32-bit counts.
  constexpr size_t kMaxBytes = std::numeric_limits<int32_t>::max() / 4;
  if (text.size() > kMaxBytes) {
    return InvalidArgumentError(
        "text of " + std::to_string(text.size()) +
        " bytes is too long to tokenize; the limit is " +
        std::to_string(kMaxBytes));
  }
  const llama_vocab* vocab = llama_model_get_vocab(handle_);
  const auto text_bytes = static_cast<int32_t>(text.size());
  // A token stands for at least a byte in most vocabularies; where it doesn't
  // the engine says how many there are.
  std::vector<Token> tokens(text.size() + 8);
  try {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const int32_t count =
          llama_tokenize(vocab, text.data(), text_bytes, tokens.data(),
                         static_cast<int32_t>(tokens.size()),
                         /*add_special=*/false, options.parse_special);
      if (count == std::numeric_limits<int32_t>::min()) break;
      tokens.resize(static_cast<size_t>(std::abs(count)));
      if (count < 0) continue;
      // The engine's add_special would also append an end token where the model
      // was trained with one.
      if (options.add_bos && llama_vocab_get_add_bos(vocab)) {
        if (const auto first = bos()) tokens.insert(tokens.begin(), *first);
      }
      return tokens;
    }
  } catch (const std::exception& e) {
    return InvalidArgumentError(std::string("text can't be tokenized: ") +
                                e.what());
  }
  return InternalError("the tokenizer gave no stable token count");
}

std::string Model::TokenText(Token token) const {
  if (token < 0 || token >= info_.vocab_size) return {};
  const llama_vocab* vocab = llama_model_get_vocab(handle_);
  // Fits all but a few tokens of long repeated characters.
  char buffer[64];
  const int32_t length = llama_token_to_piece(
      vocab, token, buffer, sizeof(buffer), /*lstrip=*/0, /*special=*/true);
  if (length >= 0) return std::string(buffer, static_cast<size_t>(length));
  std::string text(static_cast<size_t>(-length), '\0');
  const int32_t written = llama_token_to_piece(
      vocab, token, text.data(), -length, /*lstrip=*/0, /*special=*/true);
  text.resize(static_cast<size_t>(std::max(written, 0)));
  return text;
}

std::string Model::Detokenize(std::span<const Token> tokens) const {
  std::string text;
  for (Token token : tokens) text += TokenText(token);
  return text;
}

bool Model::IsEndOfGeneration(Token token) const {
  return llama_vocab_is_eog(llama_model_get_vocab(handle_), token);
}

const VocabularyIndex& Model::vocabulary() const {
  std::call_once(vocabulary_once_, [this] {
    vocabulary_ = std::make_unique<VocabularyIndex>(*this);
  });
  return *vocabulary_;
}

std::optional<Token> Model::bos() const {
  const llama_token token = llama_vocab_bos(llama_model_get_vocab(handle_));
  if (token == LLAMA_TOKEN_NULL) return std::nullopt;
  return token;
}

}  // namespace nexus::llm
