// KvAccess: typed reading and writing of KV cells.
//
// The portable way: llama.cpp's per-sequence state blob through a scratch
// sequence. To read [begin, end) the cells are shared into the scratch sequence
// and only that is serialised; to write, a blob of a few cells is restored into
// scratch, shared into the target and dropped from scratch. Writing goes in
// pieces of at most `kWritePieceTokens`, so that staging memory is bounded and
// sliding-window caches, which drop cells outside their window, are handled.
//
// The blob's layout follows llama.cpp's llama_kv_cache::state_write at the
// pinned version: magic, sequence id; per cache (one, or base +
// sliding-window): stream count, cell count, per cell (position, 1, sequence
// id), v_trans, layer count, per layer K (type, row bytes, rows), then per
// layer V (type, row bytes, rows), or, transposed, (type, element bytes,
// channels, one run of cells a channel). Everything read from a blob is checked
// against what the context was probed to hold.
#ifndef NEXUS_LLM_KV_ACCESS_H_
#define NEXUS_LLM_KV_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/context.h"

namespace nexus::llm {

// 64 tokens of a 0.5B model are about 0.8 MB, and a transposed V row of 64
// half-floats is two whole cache lines.
inline constexpr int kWritePieceTokens = 64;

constexpr size_t KvElementBytes(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

struct KvLayerShape {
  uint32_t k_elements = 0;  // a row: kv heads * head dim
  uint32_t v_elements = 0;
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;
  bool sliding_window = false;

  friend bool operator==(const KvLayerShape&, const KvLayerShape&) = default;
};

// Layers in the order of the blob: of the base cache, then of the window cache.
struct KvLayout {
  std::vector<KvLayerShape> layers;
  bool v_transposed = false;
  int sliding_window = 0;

  size_t RowBytesK(size_t layer) const;
  size_t RowBytesV(size_t layer) const;
  size_t BytesPerToken() const;
};

// Owning copy of the cells of a range, row-major whatever the cache uses.
struct KvRows {
  Position first_position = 0;
  int token_count = 0;
  // [layer] -> token_count rows of K (still rotated) and of V.
  std::vector<std::vector<uint8_t>> k;
  std::vector<std::vector<uint8_t>> v;
};

// What Write asks for its rows. Lets a splice rotate keys from a mapped file
// straight into the staging buffer, with no copy in between.
class KvRowSource {
 public:
  virtual ~KvRowSource() = default;
  // Writes `count` K rows of `layer`, tokens [token, token + count) of the
  // source, rotated to their target positions, to `out` (layer's K type,
  // contiguous, aligned to its elements and no more).
  virtual void FillK(size_t layer, int token, int count, void* out) = 0;
  // Address of the row-major V row of a token (layer's V type, aligned to its
  // elements). Rows of consecutive tokens lie `VStrideBytes` apart, a multiple
  // of the element size.
  virtual const void* VRow(size_t layer, int token) = 0;
  virtual size_t VStrideBytes(size_t layer) = 0;
};

struct KvWriteStats {
  size_t staging_bytes = 0;  // size of the largest staging buffer
  int pieces = 0;
};

// Owned by the thread that owns the context. The context must outlive it.
// Sequence `scratch` of the context belongs to this object.
class KvAccess {
 public:
  // Decodes one token to probe the layout, so the context must be empty.
  // kUnimplemented with the reason: recurrent or hybrid memory, M-RoPE,
  // quantised KV, fewer than two sequences, caches that the blob doesn't
  // describe.
  static Result<std::unique_ptr<KvAccess>> Create(Context* context,
                                                  SequenceId scratch = 1);

  const KvLayout& layout() const { return layout_; }
  SequenceId scratch() const { return scratch_; }

  // Cells [begin, end) of `sequence`, in position order. kNotFound when a
  // position isn't held (outside the sliding window, or never decoded).
  Result<KvRows> Read(SequenceId sequence, Position begin, Position end);

  // Places `count` rows, tokens [token, token + count) of `source`, at
  // positions [position, position + count) of `sequence`. Positions must
  // continue the sequence. kResourceExhausted when the cache is full: nothing
  // is left behind.
  // With a sliding window the write must be known to fit, since taking it back
  // can't restore the window: cells that sequences share count once for each,
  // and a write that would just have fitted may be refused.
  Result<KvWriteStats> Write(SequenceId sequence, Position position,
                             KvRowSource& source, int token, int count);

  // The same from rows as they are (no rotation), for tests and stored exact
  // states.
  Result<KvWriteStats> WriteRows(SequenceId sequence, Position position,
                                 const KvRows& rows);

 private:
  KvAccess(Context* context, SequenceId scratch)
      : context_(context), scratch_(scratch) {}

  // Reads the layout off a blob of one token.
  Status Probe();
  Status ReadPiece(SequenceId sequence, Position begin, Position end,
                   KvRows* rows);
  Status WritePiece(SequenceId sequence, Position position, KvRowSource& source,
                    int token, int count);
  Status CheckWrite(SequenceId sequence, Position position, int count) const;

  Context* context_;
  SequenceId scratch_;
  KvLayout layout_;
  // Of the base cache and, with a sliding window, of the window cache.
  std::vector<size_t> layers_per_cache_;
  uint32_t blob_magic_ = 0;
  int read_piece_tokens_ = 0;
  int write_piece_tokens_ = 0;
  std::vector<uint8_t> staging_;
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_KV_ACCESS_H_
