#include "nexus/llm/encoder_context.h"

#include <algorithm>
#include <exception>
#include <numeric>

#include "llama.h"

#include "nexus/llm/engine_log.h"

namespace nexus::llm {
namespace {

// Tool descriptions and questions are 10 to 200 tokens. Encoders with long
// contexts (nomic: 2048) would reserve attention buffers that grow with the
// square.
constexpr int kMaxTokens = 512;
constexpr size_t kMaxSequences = 32;
// Beyond this many bytes a token nothing is left after cutting; the limit keeps
// a 100 KB text from being tokenized for nothing.
constexpr size_t kBytesPerToken = 32;

EncoderContext::Pooling PoolingOf(enum llama_pooling_type type,
                                  const llama_model* model) {
  switch (type) {
    case LLAMA_POOLING_TYPE_MEAN:
    case LLAMA_POOLING_TYPE_CLS:
    case LLAMA_POOLING_TYPE_LAST:
      return EncoderContext::Pooling::kVector;
    case LLAMA_POOLING_TYPE_RANK:
      return llama_model_n_cls_out(model) == 1
                 ? EncoderContext::Pooling::kScore
                 : EncoderContext::Pooling::kOther;
    default:
      return EncoderContext::Pooling::kOther;
  }
}

}  // namespace

EncoderContext::~EncoderContext() {
  if (context_ != nullptr) llama_free(context_);
}

Result<std::unique_ptr<EncoderContext>> EncoderContext::Load(
    const std::string& path, int threads) {
  NEXUS_ASSIGN_OR_RETURN(auto model, Model::Load({.path = path}));
  const ModelInfo& info = model->info();
  if (!info.encoder_only) {
    return InvalidArgumentError(info.path + ": '" + info.architecture +
                                "' generates text; routing wants an encoder "
                                "such as all-MiniLM-L6-v2");
  }
  std::unique_ptr<EncoderContext> encoder(new EncoderContext);
  encoder->max_tokens_ =
      static_cast<size_t>(std::clamp(info.context_train, 4, kMaxTokens));

  llama_context_params params = llama_context_default_params();
  // An encoder's attention looks both ways, so a batch must fit one ubatch.
  params.n_ctx = static_cast<uint32_t>(encoder->max_tokens_);
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
  params.n_threads = std::max(1, threads);
  params.n_threads_batch = params.n_threads;
  EngineLogCapture log;
  try {
    encoder->context_ = llama_init_from_model(model->handle(), params);
  } catch (const std::exception& e) {
    return ResourceExhaustedError(info.path +
                                  ": no encoder context: " + e.what());
  }
  if (encoder->context_ == nullptr) {
    return ResourceExhaustedError(info.path +
                                  ": no encoder context: " + log.LastErrors());
  }
  const enum llama_pooling_type pooling = llama_pooling_type(encoder->context_);
  encoder->pooling_ = PoolingOf(pooling, model->handle());
  encoder->pooling_number_ = static_cast<int>(pooling);
  encoder->dimension_ = llama_model_n_embd_out(model->handle());
  const llama_vocab* vocab = llama_model_get_vocab(model->handle());
  if (llama_vocab_get_add_bos(vocab)) encoder->first_marker_ = model->bos();
  Token last = LLAMA_TOKEN_NULL;
  if (llama_vocab_get_add_sep(vocab)) {
    last = llama_vocab_sep(vocab);
  } else if (llama_vocab_get_add_eos(vocab)) {
    last = llama_vocab_eos(vocab);
  }
  if (last != LLAMA_TOKEN_NULL) encoder->last_marker_ = last;
  encoder->model_ = std::move(model);
  return encoder;
}

Result<EncoderContext::Tokens> EncoderContext::Tokenize(std::string_view text,
                                                        size_t limit) const {
  NEXUS_ASSIGN_OR_RETURN(
      Tokens tokens, model_->Tokenize(text.substr(0, limit * kBytesPerToken),
                                      {.parse_special = false}));
  if (tokens.size() > limit) tokens.resize(limit);
  return tokens;
}

Status EncoderContext::Encode(std::span<const Tokens> sequences,
                              const Sink& sink) {
  for (size_t begin = 0; begin < sequences.size();) {
    size_t end = begin;
    size_t total = 0;
    while (end < sequences.size() && end - begin < kMaxSequences &&
           total + sequences[end].size() <= max_tokens_) {
      NEXUS_CHECK(!sequences[end].empty());
      total += sequences[end++].size();
    }
    NEXUS_CHECK(end > begin);  // a sequence of more than max_tokens_
    NEXUS_RETURN_IF_ERROR(
        EncodeBatch(sequences.subspan(begin, end - begin), begin, sink));
    begin = end;
  }
  return Status::Ok();
}

Status EncoderContext::EncodeBatch(std::span<const Tokens> batch, size_t first,
                                   const Sink& sink) {
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
    code = llama_encode(context_, input);
  } catch (const std::exception& e) {
    return InternalError(std::string("the encoder failed: ") + e.what());
  }
  if (code != 0) {
    return InternalError("the encoder failed (code " + std::to_string(code) +
                         "): " + log.LastErrors());
  }
  for (const SequenceId s : sequence_ids_) {
    const float* row = llama_get_embeddings_seq(context_, s);
    const size_t number = first + static_cast<size_t>(s);
    if (row == nullptr) {
      return InternalError("the encoder gave nothing for text " +
                           std::to_string(number));
    }
    NEXUS_RETURN_IF_ERROR(sink(number, row));
  }
  return Status::Ok();
}

}  // namespace nexus::llm
