// KvBlob: the bytes that llama.cpp saves and restores a sequence's cells in.
//
// Internal to nexus/llm. The layout (native byte order, no padding) is that of
// llama_context::state_seq_get_data at the pinned version:
//
//   u32 magic, i32 sequence
//   for each cache (one, or base and sliding window):
//     u32 stream count (1), u32 cell count; if there are no cells, nothing more
//     for each cell, in the order of cells: i32 position, u32 1, i32 sequence
//     u32 V is transposed, u32 layer count
//     for each layer: i32 K type, u64 row bytes, rows[cell]
//     for each layer: i32 V type, u64 row bytes, rows[cell]
//       or, transposed: i32 V type, u32 element bytes, u32 channels,
//                       elements[channel][cell]
//
// Blobs come from the engine, but a new engine version may lay them out
// differently: they are parsed as input, and anything unexpected is a Status.
#ifndef NEXUS_LLM_KV_BLOB_H_
#define NEXUS_LLM_KV_BLOB_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/kv_access.h"

namespace nexus::llm {

struct KvBlobLayer {
  KvLayerShape shape;
  const uint8_t* k = nullptr;  // [cell][k_elements]
  const uint8_t* v = nullptr;  // [cell][v_elements] or [v_elements][cell]
};

struct KvBlobCache {
  std::vector<Position> positions;  // in the order of cells
  bool v_transposed = false;
  std::vector<KvBlobLayer> layers;  // empty when there are no cells
  // Where it lies in the blob, its stream count included.
  size_t begin = 0;
  size_t end = 0;
};

// Points into the blob.
struct KvBlobView {
  uint32_t magic = 0;
  SequenceId sequence = 0;
  std::vector<KvBlobCache> caches;  // one or two
};

// kCorruption with the offset for a malformed blob; kUnimplemented for one that
// Nexus can't splice: quantised rows, several streams, no V, more than two
// caches. The blob must be aligned to 2 bytes.
Result<KvBlobView> ParseKvBlob(std::span<const uint8_t> blob);

// The same cells for a context whose sequences have a stream each: `streams` of
// them. Such a blob holds all of a sequence's cells in its first stream.
std::vector<uint8_t> WithStreams(std::span<const uint8_t> blob,
                                 const KvBlobView& view, uint32_t streams);

// Copies the rows of one layer to row-major order of positions: the cell at
// position p goes to row p - first. Every position must lie in [first, first +
// rows of the buffers).
void GatherRows(const KvBlobCache& cache, size_t layer, Position first,
                uint8_t* k, uint8_t* v);

// What to build a blob for.
struct KvBlobFormat {
  uint32_t magic = 0;
  SequenceId sequence = 0;
  const KvLayout* layout = nullptr;
  std::span<const size_t> layers_per_cache;
};

// Where a layer's rows go, offsets into the blob.
struct KvBlobSlot {
  size_t k = 0;
  size_t v = 0;
};

size_t KvBlobBytes(const KvBlobFormat& format, size_t cell_count);

// Writes all headers for cells at positions [first, first + cell_count) into
// `blob`, resized to fit, and returns the place of each layer's rows.
std::vector<KvBlobSlot> LayOutKvBlob(const KvBlobFormat& format, Position first,
                                     size_t cell_count,
                                     std::vector<uint8_t>* blob);

// Writes row-major V rows, `stride` bytes apart, as the blob holds them.
void PlaceV(const KvLayerShape& shape, bool transposed, const void* rows,
            size_t stride, size_t cell_count, uint8_t* out);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_KV_BLOB_H_
