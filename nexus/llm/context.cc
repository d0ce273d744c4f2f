#include "nexus/llm/context.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "llama.h"

#include "nexus/llm/engine_log.h"

namespace nexus::llm {
namespace {

static_assert(static_cast<uint32_t>(KvType::kF16) == GGML_TYPE_F16);
static_assert(static_cast<uint32_t>(KvType::kF32) == GGML_TYPE_F32);

Status CheckOptions(const Model& model, const ContextOptions& options) {
  const ModelInfo& info = model.info();
  if (info.encoder_only) {
    return UnimplementedError(info.path + ": a model of architecture '" +
                              info.architecture +
                              "' only encodes; generation needs a decoder");
  }
  if (info.layer_count == 0) {
    return InvalidArgumentError(info.path +
                                ": loaded for its vocabulary only, so there is "
                                "nothing to decode with");
  }
  const auto check = [](const char* name, int value, int low, int high) {
    if (value >= low && value <= high) return Status::Ok();
    return InvalidArgumentError(
        std::string(name) + " is " + std::to_string(value) + ", must be " +
        std::to_string(low) + " to " + std::to_string(high));
  };
  NEXUS_RETURN_IF_ERROR(
      check("context_tokens", options.context_tokens, 1, 1 << 24));
  NEXUS_RETURN_IF_ERROR(
      check("batch_tokens", options.batch_tokens, 1, 1 << 20));
  NEXUS_RETURN_IF_ERROR(
      check("ubatch_tokens", options.ubatch_tokens, 1, 1 << 20));
  NEXUS_RETURN_IF_ERROR(check("threads", options.threads, 0, 512));
  return check("sequences", options.sequences, 1,
               static_cast<int>(llama_max_parallel_sequences()));
}

llama_context_params ToParams(const Model& model,
                              const ContextOptions& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.context_tokens) *
                 static_cast<uint32_t>(options.unified ? 1 : options.sequences);
  params.n_batch = static_cast<uint32_t>(options.batch_tokens);
  params.n_ubatch = static_cast<uint32_t>(options.ubatch_tokens);
  params.n_seq_max = static_cast<uint32_t>(options.sequences);
  params.n_threads = options.threads;
  params.n_threads_batch = options.threads;
  params.flash_attn_type = options.flash_attention
                               ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                               : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = static_cast<ggml_type>(options.kv_type);
  params.type_v = static_cast<ggml_type>(options.kv_type);
  // Sharing cells between sequences, which KvAccess lives on, asserts
  // otherwise.
  params.kv_unified = options.unified;
  // A window-sized cache forgets cells as it goes, and then a session can't be
  // rewound to an earlier turn. The full size costs memory in the window layers
  // only.
  params.swa_full = true;
  params.no_perf = true;
  const bool gpu = model.gpu_layers() != 0;
  params.offload_kqv = gpu;
  params.op_offload = gpu;
  return params;
}

}  // namespace

Result<std::unique_ptr<Context>> Context::Create(
    std::shared_ptr<const Model> model, const ContextOptions& options) {
  InitEngine();
  NEXUS_RETURN_IF_ERROR(CheckOptions(*model, options));
  std::unique_ptr<Context> context(new Context());
  context->model_ = std::move(model);
  ContextOptions& actual = context->options_;
  actual = options;
  if (actual.threads == 0) {
    actual.threads =
        static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  const Model& source = *context->model_;
  llama_context_params params = ToParams(source, actual);
  params.abort_callback = [](void* data) {
    return static_cast<const std::atomic<bool>*>(data)->load(
        std::memory_order_relaxed);
  };
  params.abort_callback_data = &context->cancelled_;
  EngineLogCapture log;
  const auto failed = [&](const std::string& reason) {
    return ResourceExhaustedError(source.info().path + ": no context of " +
                                  std::to_string(actual.context_tokens) +
                                  " tokens: " + reason + "; try fewer tokens");
  };
  try {
    context->handle_ = llama_init_from_model(source.handle(), params);
  } catch (const std::exception& e) {
    return failed(e.what());
  }
  if (context->handle_ == nullptr) return failed(log.LastErrors());
  if (llama_get_memory(context->handle_) == nullptr) {
    return UnimplementedError(source.info().path + ": architecture '" +
                              source.info().architecture +
                              "' keeps no KV cache, so it can't generate");
  }
  // The engine rounds the context up and caps the batches by it.
  actual.context_tokens =
      static_cast<int>(actual.unified ? llama_n_ctx(context->handle_)
                                      : llama_n_ctx_seq(context->handle_));
  actual.batch_tokens = static_cast<int>(llama_n_batch(context->handle_));
  actual.ubatch_tokens = static_cast<int>(llama_n_ubatch(context->handle_));
  return context;
}

Context::~Context() {
  if (handle_ != nullptr) llama_free(handle_);
}

Status Context::Decode(std::span<const Token> tokens, Position first,
                       SequenceId sequence, Logits logits) {
  logits_rows_ = 0;
  logits_copied_ = false;
  if (sequence < 0 || sequence >= options_.sequences) {
    return InvalidArgumentError("sequence " + std::to_string(sequence) +
                                ": the context has " +
                                std::to_string(options_.sequences));
  }
  const Position end = PositionEnd(sequence);
  if (first != end) {
    return InvalidArgumentError("decode at position " + std::to_string(first) +
                                ", but sequence " + std::to_string(sequence) +
                                " ends at " + std::to_string(end));
  }
  if (tokens.empty()) return InvalidArgumentError("no tokens to decode");
  const int vocab = model_->info().vocab_size;
  const auto bad = std::find_if(tokens.begin(), tokens.end(), [&](Token token) {
    return token < 0 || token >= vocab;
  });
  if (bad != tokens.end()) {
    return InvalidArgumentError("token " + std::to_string(*bad) + " at index " +
                                std::to_string(bad - tokens.begin()) +
                                " is outside the vocabulary of " +
                                std::to_string(vocab));
  }
  // What can't fit is refused before time is spent on its first batches.
  const auto cells = static_cast<size_t>(options_.context_tokens);
  const auto held = static_cast<size_t>(end - PositionBegin(sequence));
  if (tokens.size() > cells - std::min(cells, held)) {
    return ResourceExhaustedError(
        "context full: sequence " + std::to_string(sequence) + " holds " +
        std::to_string(held) + " of " + std::to_string(cells) + " cells, " +
        std::to_string(tokens.size()) + " more don't fit");
  }

  const auto batch = static_cast<size_t>(options_.batch_tokens);
  const bool several = tokens.size() > batch;
  const auto row = static_cast<size_t>(vocab);
  if (several && logits == Logits::kAll) {
    try {
      logits_.resize(tokens.size() * row);
    } catch (const std::bad_alloc&) {
      return ResourceExhaustedError("no memory for the logits of " +
                                    std::to_string(tokens.size()) + " tokens");
    }
  }
  for (size_t done = 0; done < tokens.size(); done += batch) {
    const auto piece =
        tokens.subspan(done, std::min(batch, tokens.size() - done));
    const bool last = done + piece.size() == tokens.size();
    const Logits wanted =
        logits == Logits::kLast && !last ? Logits::kNone : logits;
    Status status = DecodeBatch(piece, first + static_cast<Position>(done),
                                sequence, wanted);
    if (!status.ok()) return Undo(std::move(status), sequence, first);
    if (several && logits == Logits::kAll) {
      for (size_t i = 0; i < piece.size(); ++i) {
        std::memcpy(logits_.data() + (done + i) * row,
                    llama_get_logits_ith(handle_, static_cast<int32_t>(i)),
                    row * sizeof(float));
      }
    }
  }
  if (logits == Logits::kLast) logits_rows_ = 1;
  if (logits == Logits::kAll) logits_rows_ = static_cast<int>(tokens.size());
  logits_copied_ = several && logits == Logits::kAll;
  return Status::Ok();
}

Status Context::DecodeNext(std::span<const NextToken> next) {
  logits_rows_ = 0;
  logits_copied_ = false;
  const size_t count = next.size();
  if (count == 0 || count > static_cast<size_t>(options_.batch_tokens)) {
    return InvalidArgumentError(std::to_string(count) +
                                " tokens for a batch of 1 to " +
                                std::to_string(options_.batch_tokens));
  }
  batch_tokens_.resize(count);
  batch_positions_.resize(count);
  batch_owners_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const auto& [sequence, position, token] = next[i];
    if (sequence < 0 || sequence >= options_.sequences || token < 0 ||
        token >= model_->info().vocab_size ||
        position != PositionEnd(sequence)) {
      return InvalidArgumentError("token " + std::to_string(token) +
                                  " at position " + std::to_string(position) +
                                  " doesn't continue sequence " +
                                  std::to_string(sequence) + " of " +
                                  std::to_string(options_.sequences));
    }
    batch_tokens_[i] = token;
    batch_positions_[i] = position;
    batch_owners_[i] = sequence;
  }
  batch_outputs_.assign(count, 1);
  const Status status = RunBatch();
  if (!status.ok()) {
    for (const NextToken& one : next) {
      RemoveCells(one.sequence, one.position, -1);
    }
    return status;
  }
  logits_rows_ = static_cast<int>(count);
  return Status::Ok();
}

Status Context::DecodeBatch(std::span<const Token> tokens, Position first,
                            SequenceId sequence, Logits logits) {
  const size_t count = tokens.size();
  batch_tokens_.assign(tokens.begin(), tokens.end());
  batch_positions_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    batch_positions_[i] = first + static_cast<Position>(i);
  }
  batch_owners_.assign(count, sequence);
  batch_outputs_.assign(count, logits == Logits::kAll ? 1 : 0);
  if (logits == Logits::kLast) batch_outputs_.back() = 1;
  return RunBatch();
}

Status Context::RunBatch() {
  if (is_cancelled()) {
    return CancelledError("decoding was cancelled");
  }
  const size_t count = batch_tokens_.size();
  batch_sequence_counts_.assign(count, 1);
  batch_sequences_.resize(count);
  for (size_t i = 0; i < count; ++i) batch_sequences_[i] = &batch_owners_[i];

  llama_batch batch{};
  batch.n_tokens = static_cast<int32_t>(count);
  batch.token = batch_tokens_.data();
  batch.pos = batch_positions_.data();
  batch.n_seq_id = batch_sequence_counts_.data();
  batch.seq_id = batch_sequences_.data();
  batch.logits = batch_outputs_.data();

  EngineLogCapture log;
  int32_t code = 0;
  try {
    code = llama_decode(handle_, batch);
  } catch (const std::exception& e) {
    return InternalError(std::string("the engine failed to decode: ") +
                         e.what());
  }
  switch (code) {
    case 0:
      // The computation may still run, and the next call may come from Cancel.
      llama_synchronize(handle_);
      return Status::Ok();
    case 1:
      return ResourceExhaustedError(
          "context full: no room for " + std::to_string(count) +
          " tokens at position " + std::to_string(batch_positions_[0]) +
          " in " + std::to_string(options_.context_tokens) + " cells");
    case 2:
      return CancelledError("decoding was cancelled");
    default:
      return InternalError("the engine failed to decode (code " +
                           std::to_string(code) + "): " + log.LastErrors());
  }
}

Status Context::Undo(Status status, SequenceId sequence, Position first) {
  if (RemoveCells(sequence, first, -1)) return status;
  RemoveCells(sequence, -1, -1);
  return status.WithContext(
      "this model's state can't be rewound, so sequence " +
      std::to_string(sequence) + " was emptied");
}

std::span<const float> Context::LogitsRow(int index) const {
  NEXUS_CHECK(index >= 0 && index < logits_rows_);
  const auto size = static_cast<size_t>(model_->info().vocab_size);
  if (logits_copied_) {
    return {logits_.data() + static_cast<size_t>(index) * size, size};
  }
  // Negative: from the end of the engine's rows, whichever tokens they are of.
  const float* row = llama_get_logits_ith(handle_, index - logits_rows_);
  NEXUS_CHECK(row != nullptr);
  return {row, size};
}

Position Context::PositionEnd(SequenceId sequence) const {
  return llama_memory_seq_pos_max(llama_get_memory(handle_), sequence) + 1;
}

Position Context::PositionBegin(SequenceId sequence) const {
  return std::max(
      0, llama_memory_seq_pos_min(llama_get_memory(handle_), sequence));
}

bool Context::RemoveCells(SequenceId sequence, Position begin, Position end) {
  return llama_memory_seq_rm(llama_get_memory(handle_), sequence, begin, end);
}

void Context::ShareCells(SequenceId from, SequenceId to, Position begin,
                         Position end) {
  llama_memory_seq_cp(llama_get_memory(handle_), from, to, begin, end);
}

void Context::Clear() { llama_memory_clear(llama_get_memory(handle_), false); }

}  // namespace nexus::llm
