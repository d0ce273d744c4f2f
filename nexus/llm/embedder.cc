#include "nexus/llm/embedder.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>
#include <utility>

#include "llama.h"

#include "nexus/llm/engine_log.h"
#include "nexus/llm/model.h"

namespace nexus::llm {
namespace {

// Tool descriptions and questions are 10 to 200 tokens. Encoders with long
// contexts (nomic: 2048) would reserve attention buffers that grow with the
// square.
constexpr int kMaxTokens = 512;
constexpr int kMaxSequences = 32;

struct ContextDeleter {
  void operator()(llama_context* context) const { llama_free(context); }
};

class GgufEmbedder final : public Embedder {
 public:
  static Result<std::unique_ptr<Embedder>> Load(const EncoderOptions& options);

  int dimension() const override { return dimension_; }
  std::string fingerprint() const override { return fingerprint_; }
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, TextRole role) override;

 private:
  using Tokens = std::vector<Token>;

  Result<Tokens> TokenizeForEncoder(const std::string& text) const;
  // Encodes sequences that together fit a batch.
  Status EncodeBatch(std::span<const Tokens> batch,
                     std::vector<std::vector<float>>* vectors);

  std::shared_ptr<const Model> model_;
  std::unique_ptr<llama_context, ContextDeleter> context_;
  std::string query_prefix_;
  std::string document_prefix_;
  std::string fingerprint_;
  int dimension_ = 0;
  size_t max_tokens_ = 0;  // of one text, the markers at both ends included
  // Arrays of a llama_batch, reused.
  std::vector<Token> tokens_;
  std::vector<Position> positions_;
  std::vector<int32_t> sequence_counts_;
  std::vector<SequenceId> sequence_ids_;
  std::vector<SequenceId*> sequences_;
  std::vector<int8_t> outputs_;
};

Result<std::unique_ptr<Embedder>> GgufEmbedder::Load(
    const EncoderOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(auto model, Model::Load({.path = options.path}));
  const ModelInfo& info = model->info();
  if (!info.encoder_only) {
    return InvalidArgumentError(info.path + ": '" + info.architecture +
                                "' generates text; routing wants an encoder "
                                "such as all-MiniLM-L6-v2");
  }
  auto embedder = std::make_unique<GgufEmbedder>();
  embedder->max_tokens_ =
      static_cast<size_t>(std::clamp(info.context_train, 4, kMaxTokens));

  llama_context_params params = llama_context_default_params();
  // An encoder's attention looks both ways, so a batch must fit one ubatch.
  params.n_ctx = static_cast<uint32_t>(embedder->max_tokens_);
  params.n_batch = params.n_ctx;
  params.n_ubatch = params.n_ctx;
  params.n_seq_max = kMaxSequences;
  params.kv_unified = true;
  params.embeddings = true;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.no_perf = true;
  params.offload_kqv = false;
  params.op_offload = false;
  // A short question is too little work to split: the threads would mostly wait
  // for each other.
  const int threads = std::max(1, options.threads);
  params.n_threads = threads;
  params.n_threads_batch = threads;
  EngineLogCapture log;
  try {
    embedder->context_.reset(llama_init_from_model(model->handle(), params));
  } catch (const std::exception& e) {
    return ResourceExhaustedError(info.path +
                                  ": no encoder context: " + e.what());
  }
  llama_context* context = embedder->context_.get();
  if (context == nullptr) {
    return ResourceExhaustedError(info.path +
                                  ": no encoder context: " + log.LastErrors());
  }
  const enum llama_pooling_type pooling = llama_pooling_type(context);
  if (pooling != LLAMA_POOLING_TYPE_MEAN && pooling != LLAMA_POOLING_TYPE_CLS &&
      pooling != LLAMA_POOLING_TYPE_LAST) {
    return InvalidArgumentError(
        info.path + ": its metadata names no pooling (pooling_type " +
        std::to_string(pooling) +
        "), so it gives no vector for a text; convert it again with one");
  }
  const bool nomic = info.architecture.starts_with("nomic");
  embedder->query_prefix_ = options.query_prefix.empty() && nomic
                                ? "search_query: "
                                : options.query_prefix;
  embedder->document_prefix_ = options.document_prefix.empty() && nomic
                                   ? "search_document: "
                                   : options.document_prefix;
  embedder->dimension_ = llama_model_n_embd_out(model->handle());
  embedder->model_ = model;
  NEXUS_ASSIGN_OR_RETURN(const Sha256Digest digest, Sha256OfFile(options.path));
  embedder->fingerprint_ = ToHex(digest) + ";" + EngineVersion() + ";pooling " +
                           std::to_string(pooling) + ";tokens " +
                           std::to_string(embedder->max_tokens_) + ";query '" +
                           embedder->query_prefix_ + "';document '" +
                           embedder->document_prefix_ + "'";
  return std::unique_ptr<Embedder>(std::move(embedder));
}

Result<std::vector<Token>> GgufEmbedder::TokenizeForEncoder(
    const std::string& text) const {
  // Beyond this many bytes a token nothing is left after cutting; the limit
  // keeps a 100 KB text from being tokenized for nothing.
  constexpr size_t kBytesPerToken = 32;
  const std::string_view head =
      std::string_view(text).substr(0, max_tokens_ * kBytesPerToken);
  // Text from users: "[SEP]" in it is five letters, not a marker.
  NEXUS_ASSIGN_OR_RETURN(Tokens body,
                         model_->Tokenize(head, {.parse_special = false}));
  const llama_vocab* vocab = llama_model_get_vocab(model_->handle());
  Tokens tokens;
  if (llama_vocab_get_add_bos(vocab)) {
    if (const auto first = model_->bos()) tokens.push_back(*first);
  }
  Token last = LLAMA_TOKEN_NULL;
  if (llama_vocab_get_add_sep(vocab)) {
    last = llama_vocab_sep(vocab);
  } else if (llama_vocab_get_add_eos(vocab)) {
    last = llama_vocab_eos(vocab);
  }
  const size_t markers = tokens.size() + (last != LLAMA_TOKEN_NULL ? 1 : 0);
  body.resize(std::min(body.size(), max_tokens_ - markers));
  tokens.insert(tokens.end(), body.begin(), body.end());
  if (last != LLAMA_TOKEN_NULL) tokens.push_back(last);
  if (tokens.empty()) {
    return InvalidArgumentError(
        "the text has no tokens, and the encoder adds none of its own");
  }
  return tokens;
}

Result<std::vector<std::vector<float>>> GgufEmbedder::Embed(
    std::span<const std::string> texts, TextRole role) {
  const std::string& prefix =
      role == TextRole::kQuery ? query_prefix_ : document_prefix_;
  std::vector<Tokens> inputs;
  inputs.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    auto tokens = TokenizeForEncoder(prefix + texts[i]);
    if (!tokens.ok()) {
      return tokens.status().WithContext("text " + std::to_string(i));
    }
    inputs.push_back(*std::move(tokens));
  }
  std::vector<std::vector<float>> vectors;
  vectors.reserve(texts.size());
  const std::span<const Tokens> all(inputs);
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    size_t total = 0;
    while (end < all.size() && end - begin < kMaxSequences &&
           total + all[end].size() <= max_tokens_) {
      total += all[end++].size();
    }
    NEXUS_RETURN_IF_ERROR(
        EncodeBatch(all.subspan(begin, end - begin), &vectors));
    begin = end;
  }
  return vectors;
}

Status GgufEmbedder::EncodeBatch(std::span<const Tokens> batch,
                                 std::vector<std::vector<float>>* vectors) {
  tokens_.clear();
  positions_.clear();
  sequence_ids_.resize(batch.size());
  std::iota(sequence_ids_.begin(), sequence_ids_.end(), 0);
  sequences_.clear();
  for (size_t s = 0; s < batch.size(); ++s) {
    for (size_t i = 0; i < batch[s].size(); ++i) {
      tokens_.push_back(batch[s][i]);
      positions_.push_back(static_cast<Position>(i));
      sequences_.push_back(&sequence_ids_[s]);
    }
  }
  sequence_counts_.assign(tokens_.size(), 1);
  outputs_.assign(tokens_.size(), 1);
  llama_batch input{};
  input.n_tokens = static_cast<int32_t>(tokens_.size());
  input.token = tokens_.data();
  input.pos = positions_.data();
  input.n_seq_id = sequence_counts_.data();
  input.seq_id = sequences_.data();
  input.logits = outputs_.data();

  EngineLogCapture log;
  int32_t code = 0;
  try {
    code = llama_encode(context_.get(), input);
  } catch (const std::exception& e) {
    return InternalError(std::string("the encoder failed: ") + e.what());
  }
  if (code != 0) {
    return InternalError("the encoder failed (code " + std::to_string(code) +
                         "): " + log.LastErrors());
  }
  for (SequenceId s : sequence_ids_) {
    const float* pooled = llama_get_embeddings_seq(context_.get(), s);
    if (pooled == nullptr) {
      return InternalError("the encoder gave no vector for text " +
                           std::to_string(s));
    }
    double squares = 0.0;
    for (int i = 0; i < dimension_; ++i) {
      squares +=
          static_cast<double>(pooled[i]) * static_cast<double>(pooled[i]);
    }
    if (!std::isfinite(squares) || squares == 0.0) {
      return InternalError(
          model_->info().path +
          ": the encoder gave a vector without direction (not a number or "
          "zero); the file is damaged, fetch it again");
    }
    const auto scale = static_cast<float>(1.0 / std::sqrt(squares));
    auto& vector = vectors->emplace_back(pooled, pooled + dimension_);
    for (float& value : vector) value *= scale;
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Embedder>> LoadEncoder(const EncoderOptions& options) {
  return GgufEmbedder::Load(options);
}

}  // namespace nexus::llm
