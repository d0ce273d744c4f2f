#include "nexus/llm/kv_access.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "llama.h"

#include "nexus/llm/engine_log.h"
#include "nexus/llm/kv_blob.h"
#include "nexus/llm/sequence_copy.h"

namespace nexus::llm {
namespace {

// A transposed V costs one call into the backend for each channel of each
// piece: longer pieces are faster to read, and the rows that come out are
// larger anyway.
constexpr int kReadPieceTokens = 256;

std::string PositionText(Position position) {
  return "position " + std::to_string(position);
}

// Empties the scratch sequence at the end of a piece, however that ends. Cells
// that another sequence shares stay there.
class ScratchGuard {
 public:
  ScratchGuard(Context* context, SequenceId scratch)
      : context_(context), scratch_(scratch) {}
  ~ScratchGuard() { context_->RemoveCells(scratch_, 0, -1); }
  ScratchGuard(const ScratchGuard&) = delete;
  ScratchGuard& operator=(const ScratchGuard&) = delete;

 private:
  Context* context_;
  SequenceId scratch_;
};

class RowsSource : public KvRowSource {
 public:
  RowsSource(const KvLayout& layout, const KvRows& rows)
      : layout_(layout), rows_(rows) {}

  void FillK(size_t layer, int token, int count, void* out) override {
    const size_t bytes = layout_.RowBytesK(layer);
    const uint8_t* begin =
        rows_.k[layer].data() + bytes * static_cast<size_t>(token);
    std::copy_n(begin, bytes * static_cast<size_t>(count),
                static_cast<uint8_t*>(out));
  }
  const void* VRow(size_t layer, int token) override {
    return rows_.v[layer].data() +
           layout_.RowBytesV(layer) * static_cast<size_t>(token);
  }
  size_t VStrideBytes(size_t layer) override {
    return layout_.RowBytesV(layer);
  }

 private:
  const KvLayout& layout_;
  const KvRows& rows_;
};

Status CheckModel(const Context& context, SequenceId scratch) {
  const ModelInfo& info = context.model().info();
  const auto refuse = [&](const std::string& why) {
    return UnimplementedError("KV cells of " + info.name + " (" +
                              info.architecture + ") can't be spliced: " + why);
  };
  if (info.encoder_only) return refuse("it is an encoder");
  if (info.recurrent) return refuse("its memory is recurrent");
  if (info.hybrid) return refuse("its memory is partly recurrent");
  if (info.rope == RopeKind::kMultimodal) {
    return refuse("it has multimodal positions (M-RoPE)");
  }
  const int sequences = context.options().sequences;
  if (sequences < 2) {
    return UnimplementedError(
        "KV access needs a context of two sequences or more: one is scratch");
  }
  if (scratch < 0 || scratch >= sequences) {
    return InvalidArgumentError("scratch sequence " + std::to_string(scratch) +
                                " of a context with " +
                                std::to_string(sequences));
  }
  for (SequenceId sequence = 0; sequence < sequences; ++sequence) {
    if (context.PositionEnd(sequence) != 0) {
      return InvalidArgumentError(
          "KV access is created on an empty context: sequence " +
          std::to_string(sequence) + " holds cells");
    }
  }
  return Status::Ok();
}

}  // namespace

size_t KvLayout::RowBytesK(size_t layer) const {
  return layers[layer].k_elements * KvElementBytes(layers[layer].k_type);
}

size_t KvLayout::RowBytesV(size_t layer) const {
  return layers[layer].v_elements * KvElementBytes(layers[layer].v_type);
}

size_t KvLayout::BytesPerToken() const {
  size_t bytes = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    bytes += RowBytesK(i) + RowBytesV(i);
  }
  return bytes;
}

Result<std::unique_ptr<KvAccess>> KvAccess::Create(Context* context,
                                                   SequenceId scratch) {
  NEXUS_RETURN_IF_ERROR(CheckModel(*context, scratch));
  std::unique_ptr<KvAccess> access(new KvAccess(context, scratch));
  const Status status = access->Probe();
  context->Clear();
  if (!status.ok()) return status.WithContext("probing the KV cache's layout");
  return access;
}

Status KvAccess::Probe() {
  const std::array<Token, 1> token = {context_->model().bos().value_or(0)};
  NEXUS_RETURN_IF_ERROR(context_->Decode(token, 0, scratch_, Logits::kNone));
  NEXUS_RETURN_IF_ERROR(SaveSequence(*context_, scratch_, &staging_));
  NEXUS_ASSIGN_OR_RETURN(const KvBlobView view, ParseKvBlob(staging_));
  blob_magic_ = view.magic;
  for (const KvBlobCache& cache : view.caches) {
    if (cache.positions.size() != 1 || cache.positions[0] != 0) {
      return UnimplementedError("the token just decoded takes " +
                                std::to_string(cache.positions.size()) +
                                " cells, one at position 0 was expected");
    }
    if (cache.v_transposed != view.caches[0].v_transposed) {
      return UnimplementedError("the two KV caches lay V out differently");
    }
    layers_per_cache_.push_back(cache.layers.size());
    for (const KvBlobLayer& layer : cache.layers) {
      layout_.layers.push_back(layer.shape);
    }
  }
  if (layout_.layers.empty()) {
    return UnimplementedError("no layer of the model has a KV cache");
  }
  layout_.v_transposed = view.caches[0].v_transposed;
  read_piece_tokens_ = kReadPieceTokens;
  write_piece_tokens_ = kWritePieceTokens;
  if (view.caches.size() == 2) {
    const int window = llama_model_n_swa(context_->model().handle());
    if (window <= 0) {
      return UnimplementedError("two KV caches, but no sliding window");
    }
    layout_.sliding_window = window;
    // Serialising drops what lies outside the window of the last position in
    // scratch. A window cache has room for its windows and one micro-batch.
    read_piece_tokens_ = std::min(read_piece_tokens_, window);
    write_piece_tokens_ =
        std::min({write_piece_tokens_, window,
                  static_cast<int>(llama_n_ubatch(context_->handle()))});
  }
  return Status::Ok();
}

Result<KvRows> KvAccess::Read(SequenceId sequence, Position begin,
                              Position end) {
  if (sequence == scratch_ || sequence < 0 ||
      sequence >= context_->options().sequences || begin < 0 || end < begin) {
    return InvalidArgumentError(
        "KV read of positions [" + std::to_string(begin) + ", " +
        std::to_string(end) + ") of sequence " + std::to_string(sequence));
  }
  if (end > context_->PositionEnd(sequence)) {
    return NotFoundError("sequence " + std::to_string(sequence) + " ends at " +
                         PositionText(context_->PositionEnd(sequence)) + ", " +
                         PositionText(end - 1) + " isn't there");
  }
  KvRows rows;
  rows.first_position = begin;
  rows.token_count = end - begin;
  const auto count = static_cast<size_t>(rows.token_count);
  for (size_t i = 0; i < layout_.layers.size(); ++i) {
    rows.k.emplace_back(count * layout_.RowBytesK(i));
    rows.v.emplace_back(count * layout_.RowBytesV(i));
  }
  for (Position first = begin; first < end;) {
    Position last = std::min(end, first + read_piece_tokens_);
    if (layout_.sliding_window > 0) {
      // Chunked windows (Llama 4) drop what lies before a multiple of the
      // window.
      const Position chunk_end =
          (first / layout_.sliding_window + 1) * layout_.sliding_window;
      last = std::min(last, chunk_end);
    }
    NEXUS_RETURN_IF_ERROR(ReadPiece(sequence, first, last, &rows));
    first = last;
  }
  return rows;
}

Status KvAccess::ReadPiece(SequenceId sequence, Position begin, Position end,
                           KvRows* rows) {
  context_->RemoveCells(scratch_, 0, -1);
  {
    const ScratchGuard guard(context_, scratch_);
    context_->ShareCells(sequence, scratch_, begin, end);
    NEXUS_RETURN_IF_ERROR(SaveSequence(*context_, scratch_, &staging_));
  }
  NEXUS_ASSIGN_OR_RETURN(const KvBlobView view, ParseKvBlob(staging_));
  if (view.magic != blob_magic_ ||
      view.caches.size() != layers_per_cache_.size()) {
    return CorruptionError("KV state differs in form from the one probed");
  }
  size_t first_layer = 0;
  for (size_t c = 0; c < view.caches.size(); ++c) {
    const KvBlobCache& cache = view.caches[c];
    std::vector<bool> held(static_cast<size_t>(end - begin));
    for (const Position position : cache.positions) {
      if (position < begin || position >= end ||
          held[static_cast<size_t>(position - begin)]) {
        return CorruptionError("KV state holds a cell at " +
                               PositionText(position) +
                               " that it shouldn't hold");
      }
      held[static_cast<size_t>(position - begin)] = true;
    }
    const auto missing = std::find(held.begin(), held.end(), false);
    if (missing != held.end()) {
      return NotFoundError(
          PositionText(begin + static_cast<Position>(missing - held.begin())) +
          " of sequence " + std::to_string(sequence) + " isn't held by the " +
          (c == 0 ? "KV cache" : "sliding-window KV cache any more"));
    }
    if (cache.layers.size() != layers_per_cache_[c] ||
        cache.v_transposed != layout_.v_transposed) {
      return CorruptionError("KV state differs in layers from the one probed");
    }
    for (size_t i = 0; i < cache.layers.size(); ++i) {
      const size_t layer = first_layer + i;
      if (cache.layers[i].shape != layout_.layers[layer]) {
        return CorruptionError("KV layer " + std::to_string(layer) +
                               " differs in shape from the one probed");
      }
      // Rows of this piece start at (begin - first_position).
      const Position first = rows->first_position;
      GatherRows(cache, i, first, rows->k[layer].data(), rows->v[layer].data());
    }
    first_layer += cache.layers.size();
  }
  return Status::Ok();
}

Status KvAccess::CheckWrite(SequenceId sequence, Position position,
                            int count) const {
  const int sequences = context_->options().sequences;
  if (sequence == scratch_ || sequence < 0 || sequence >= sequences ||
      count < 0) {
    return InvalidArgumentError("KV write of " + std::to_string(count) +
                                " tokens to sequence " +
                                std::to_string(sequence) + " (scratch is " +
                                std::to_string(scratch_) + ")");
  }
  const Position expected = context_->PositionEnd(sequence);
  if (position != expected) {
    return InvalidArgumentError("KV write at " + PositionText(position) +
                                ", but sequence " + std::to_string(sequence) +
                                " continues at " + PositionText(expected));
  }
  const auto cells = static_cast<int64_t>(llama_n_ctx(context_->handle()));
  int64_t used = 0;
  for (SequenceId other = 0; other < sequences; ++other) {
    // Cells that sequences share are counted for each.
    if (other != scratch_) used += context_->PositionEnd(other);
  }
  // Without a window a write that doesn't fit is taken back exactly, so trying
  // is the better test. A window cache may have given up old cells by then:
  // there the write must be known to fit.
  if (count > cells || (layout_.sliding_window > 0 && used + count > cells)) {
    return ResourceExhaustedError("KV cache of " + std::to_string(cells) +
                                  " cells, " + std::to_string(used) +
                                  " in use: no room for " +
                                  std::to_string(count) + " more");
  }
  return Status::Ok();
}

Result<KvWriteStats> KvAccess::Write(SequenceId sequence, Position position,
                                     KvRowSource& source, int token,
                                     int count) {
  NEXUS_RETURN_IF_ERROR(CheckWrite(sequence, position, count));
  context_->RemoveCells(scratch_, 0, -1);
  KvWriteStats stats;
  for (int done = 0; done < count;) {
    const int piece = std::min(write_piece_tokens_, count - done);
    const Status status =
        WritePiece(sequence, position + done, source, token + done, piece);
    if (!status.ok()) {
      context_->RemoveCells(sequence, position, -1);
      return status;
    }
    stats.staging_bytes = std::max(stats.staging_bytes, staging_.size());
    ++stats.pieces;
    done += piece;
  }
  return stats;
}

Status KvAccess::WritePiece(SequenceId sequence, Position position,
                            KvRowSource& source, int token, int count) {
  const KvBlobFormat format = {.magic = blob_magic_,
                               .sequence = scratch_,
                               .layout = &layout_,
                               .layers_per_cache = layers_per_cache_};
  const auto cells = static_cast<size_t>(count);
  const std::vector<KvBlobSlot> slots =
      LayOutKvBlob(format, position, cells, &staging_);
  for (size_t i = 0; i < slots.size(); ++i) {
    source.FillK(i, token, count, staging_.data() + slots[i].k);
    PlaceV(layout_.layers[i], layout_.v_transposed, source.VRow(i, token),
           source.VStrideBytes(i), cells, staging_.data() + slots[i].v);
  }
  const ScratchGuard guard(context_, scratch_);
  const EngineLogCapture log;
  const size_t used = llama_state_seq_set_data_ext(
      context_->handle(), staging_.data(), staging_.size(), scratch_, 0);
  if (used == 0 && log.Contains("available cells")) {
    return ResourceExhaustedError(
        "KV cache of " + std::to_string(llama_n_ctx(context_->handle())) +
        " cells has no room for " + std::to_string(count) + " more at " +
        PositionText(position));
  }
  if (used != staging_.size()) {
    return InternalError("the engine refused KV cells at " +
                         PositionText(position) + ": " + log.LastErrors());
  }
  context_->ShareCells(scratch_, sequence, position, position + count);
  return Status::Ok();
}

Result<KvWriteStats> KvAccess::WriteRows(SequenceId sequence, Position position,
                                         const KvRows& rows) {
  if (rows.token_count < 0 || rows.k.size() != layout_.layers.size() ||
      rows.v.size() != layout_.layers.size()) {
    return IncompatibleError("KV rows of " + std::to_string(rows.k.size()) +
                             " layers for a cache of " +
                             std::to_string(layout_.layers.size()));
  }
  const auto count = static_cast<size_t>(rows.token_count);
  for (size_t i = 0; i < layout_.layers.size(); ++i) {
    if (rows.k[i].size() != count * layout_.RowBytesK(i) ||
        rows.v[i].size() != count * layout_.RowBytesV(i)) {
      return IncompatibleError(
          "KV rows of layer " + std::to_string(i) + ": " +
          std::to_string(rows.k[i].size()) + " + " +
          std::to_string(rows.v[i].size()) + " bytes for " +
          std::to_string(count) + " tokens, the cache holds " +
          std::to_string(layout_.RowBytesK(i)) + " + " +
          std::to_string(layout_.RowBytesV(i)) + " a token");
    }
  }
  RowsSource source(layout_, rows);
  return Write(sequence, position, source, 0, rows.token_count);
}

}  // namespace nexus::llm
