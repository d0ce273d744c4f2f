#include "nexus/llm/kv_blob.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "nexus/base/check.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::llm {
namespace {

constexpr size_t kCellHeaderBytes = 12;
constexpr size_t kKHeaderBytes = 12;
constexpr size_t kVHeaderBytes = 12;
// A row of a real model has a few thousand elements; this keeps products of
// row size and cell count far from overflow.
constexpr uint64_t kMaxRowBytes = uint64_t{1} << 24;

class Parser {
 public:
  explicit Parser(std::span<const uint8_t> blob) : blob_(blob) {}

  Result<KvBlobView> Parse();

 private:
  size_t remaining() const { return blob_.size() - offset_; }

  Status Malformed(const std::string& what) const {
    return CorruptionError("KV state blob of " + std::to_string(blob_.size()) +
                           " bytes, offset " + std::to_string(offset_) + ": " +
                           what);
  }

  template <typename T>
  Status Read(const char* what, T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (remaining() < sizeof(T)) {
      return Malformed(std::string(what) + " is cut off");
    }
    std::memcpy(value, blob_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return Status::Ok();
  }

  Status ReadData(const char* what, uint64_t row_bytes, size_t rows,
                  const uint8_t** data) {
    // row_bytes <= kMaxRowBytes and rows <= blob size / 12: no overflow.
    const uint64_t need = row_bytes * rows;
    if (remaining() < need) {
      return Malformed(std::string(what) + " need " + std::to_string(need) +
                       " bytes, " + std::to_string(remaining()) + " are left");
    }
    *data = blob_.data() + offset_;
    offset_ += static_cast<size_t>(need);
    return Status::Ok();
  }

  Status ReadType(const char* what, KvType* type);
  Status ReadCells(SequenceId sequence, KvBlobCache* cache);
  Status ReadK(KvBlobCache* cache, KvBlobLayer* layer);
  Status ReadV(KvBlobCache* cache, KvBlobLayer* layer);
  Status ReadCache(SequenceId sequence, KvBlobCache* cache);

  std::span<const uint8_t> blob_;
  size_t offset_ = 0;
};

Status Parser::ReadType(const char* what, KvType* type) {
  int32_t value = 0;
  NEXUS_RETURN_IF_ERROR(Read(what, &value));
  if (value != static_cast<int32_t>(KvType::kF16) &&
      value != static_cast<int32_t>(KvType::kF32)) {
    return UnimplementedError(
        std::string(what) + " is ggml type " + std::to_string(value) +
        ": only F16 and F32 KV caches can be spliced, run with an F16 cache");
  }
  *type = static_cast<KvType>(value);
  return Status::Ok();
}

Status Parser::ReadCells(SequenceId sequence, KvBlobCache* cache) {
  uint32_t streams = 0;
  uint32_t cells = 0;
  NEXUS_RETURN_IF_ERROR(Read("stream count", &streams));
  if (streams != 1) {
    return UnimplementedError("the KV cache has " + std::to_string(streams) +
                              " streams: splicing needs a unified cache");
  }
  NEXUS_RETURN_IF_ERROR(Read("cell count", &cells));
  if (remaining() / kCellHeaderBytes < cells) {
    return Malformed(std::to_string(cells) + " cells don't fit");
  }
  cache->positions.reserve(cells);
  for (uint32_t i = 0; i < cells; ++i) {
    Position position = 0;
    uint32_t owners = 0;
    SequenceId owner = 0;
    NEXUS_RETURN_IF_ERROR(Read("position", &position));
    NEXUS_RETURN_IF_ERROR(Read("owner count", &owners));
    NEXUS_RETURN_IF_ERROR(Read("owner", &owner));
    if (position < 0 || owners != 1 || owner != sequence) {
      return Malformed("cell " + std::to_string(i) + " has position " +
                       std::to_string(position) + ", " +
                       std::to_string(owners) + " owners, owner " +
                       std::to_string(owner) + " where sequence " +
                       std::to_string(sequence) + " was asked for");
    }
    cache->positions.push_back(position);
  }
  return Status::Ok();
}

Status Parser::ReadK(KvBlobCache* cache, KvBlobLayer* layer) {
  uint64_t row_bytes = 0;
  NEXUS_RETURN_IF_ERROR(ReadType("K type", &layer->shape.k_type));
  NEXUS_RETURN_IF_ERROR(Read("K row size", &row_bytes));
  const size_t element = KvElementBytes(layer->shape.k_type);
  if (row_bytes == 0 || row_bytes > kMaxRowBytes || row_bytes % element != 0) {
    return Malformed("K rows of " + std::to_string(row_bytes) + " bytes");
  }
  layer->shape.k_elements = static_cast<uint32_t>(row_bytes / element);
  return ReadData("K rows", row_bytes, cache->positions.size(), &layer->k);
}

Status Parser::ReadV(KvBlobCache* cache, KvBlobLayer* layer) {
  if (remaining() == 0) {
    return UnimplementedError(
        "the KV cache holds no V for some layers (latent attention): it can't "
        "be "
        "spliced");
  }
  uint64_t row_bytes = 0;
  NEXUS_RETURN_IF_ERROR(ReadType("V type", &layer->shape.v_type));
  const size_t element = KvElementBytes(layer->shape.v_type);
  if (cache->v_transposed) {
    uint32_t element_bytes = 0;
    uint32_t channels = 0;
    NEXUS_RETURN_IF_ERROR(Read("V element size", &element_bytes));
    NEXUS_RETURN_IF_ERROR(Read("V channel count", &channels));
    if (element_bytes != element) {
      return Malformed("V elements of " + std::to_string(element_bytes) +
                       " bytes, the type has " + std::to_string(element));
    }
    row_bytes = uint64_t{channels} * element;
  } else {
    NEXUS_RETURN_IF_ERROR(Read("V row size", &row_bytes));
  }
  if (row_bytes == 0 || row_bytes > kMaxRowBytes || row_bytes % element != 0) {
    return Malformed("V rows of " + std::to_string(row_bytes) + " bytes");
  }
  layer->shape.v_elements = static_cast<uint32_t>(row_bytes / element);
  return ReadData("V rows", row_bytes, cache->positions.size(), &layer->v);
}

Status Parser::ReadCache(SequenceId sequence, KvBlobCache* cache) {
  NEXUS_RETURN_IF_ERROR(ReadCells(sequence, cache));
  if (cache->positions.empty()) return Status::Ok();
  uint32_t transposed = 0;
  uint32_t layers = 0;
  NEXUS_RETURN_IF_ERROR(Read("V layout", &transposed));
  if (transposed > 1) {
    return Malformed("V layout " + std::to_string(transposed));
  }
  cache->v_transposed = transposed == 1;
  NEXUS_RETURN_IF_ERROR(Read("layer count", &layers));
  if (remaining() / kKHeaderBytes < layers) {
    return Malformed(std::to_string(layers) + " layers don't fit");
  }
  cache->layers.resize(layers);
  for (KvBlobLayer& layer : cache->layers) {
    NEXUS_RETURN_IF_ERROR(ReadK(cache, &layer));
  }
  for (KvBlobLayer& layer : cache->layers) {
    NEXUS_RETURN_IF_ERROR(ReadV(cache, &layer));
  }
  return Status::Ok();
}

Result<KvBlobView> Parser::Parse() {
  KvBlobView view;
  NEXUS_RETURN_IF_ERROR(Read("magic", &view.magic));
  NEXUS_RETURN_IF_ERROR(Read("sequence", &view.sequence));
  do {
    if (view.caches.size() == 2) {
      return UnimplementedError(
          "the state of a sequence holds more than a base and a sliding-window "
          "KV cache (" +
          std::to_string(remaining()) + " bytes are left over)");
    }
    KvBlobCache& cache = view.caches.emplace_back();
    cache.begin = offset_;
    NEXUS_RETURN_IF_ERROR(ReadCache(view.sequence, &cache));
    cache.end = offset_;
    for (KvBlobLayer& layer : cache.layers) {
      layer.shape.sliding_window = view.caches.size() == 2;
    }
  } while (remaining() > 0);
  return view;
}

// Cells [cell, cell + count) hold consecutive positions from `position` on.
struct Run {
  size_t cell = 0;
  size_t count = 0;
  Position position = 0;
};

Run RunAt(std::span<const Position> positions, size_t cell) {
  size_t end = cell + 1;
  while (end < positions.size() && positions[end] == positions[end - 1] + 1) {
    ++end;
  }
  return {cell, end - cell, positions[cell]};
}

// in[row][column] -> out[column][row], for 4-byte elements at any alignment.
void Transpose32(const uint8_t* in, size_t rows, size_t columns,
                 size_t in_stride_bytes, uint8_t* out,
                 size_t out_stride_bytes) {
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::memcpy(out + column * out_stride_bytes + row * 4,
                  in + row * in_stride_bytes + column * 4, 4);
    }
  }
}

// Strides in bytes.
void Transpose(KvType type, const uint8_t* in, size_t rows, size_t columns,
               size_t in_stride, uint8_t* out, size_t out_stride) {
  if (type == KvType::kF32) {
    Transpose32(in, rows, columns, in_stride, out, out_stride);
    return;
  }
  NEXUS_DCHECK(reinterpret_cast<uintptr_t>(in) % 2 == 0 &&
               reinterpret_cast<uintptr_t>(out) % 2 == 0);
  simd::Transpose16(reinterpret_cast<const uint16_t*>(in), rows, columns,
                    in_stride / 2, reinterpret_cast<uint16_t*>(out),
                    out_stride / 2);
}

template <typename T>
void Append(T value, uint8_t** out) {
  std::memcpy(*out, &value, sizeof(T));
  *out += sizeof(T);
}

}  // namespace

Result<KvBlobView> ParseKvBlob(std::span<const uint8_t> blob) {
  return Parser(blob).Parse();
}

std::vector<uint8_t> WithStreams(std::span<const uint8_t> blob,
                                 const KvBlobView& view, uint32_t streams) {
  constexpr size_t kCountBytes = sizeof(uint32_t);
  // Each of the other streams holds no cells, and says so.
  const size_t others = (streams - 1) * kCountBytes;
  std::vector<uint8_t> out;
  out.reserve(blob.size() + view.caches.size() * others);
  out.assign(blob.begin(),
             blob.begin() + static_cast<std::ptrdiff_t>(view.caches[0].begin));
  for (const KvBlobCache& cache : view.caches) {
    const auto* count = reinterpret_cast<const uint8_t*>(&streams);
    out.insert(out.end(), count, count + kCountBytes);
    const auto rest = blob.subspan(cache.begin + kCountBytes,
                                   cache.end - cache.begin - kCountBytes);
    out.insert(out.end(), rest.begin(), rest.end());
    out.insert(out.end(), others, 0);
  }
  return out;
}

void GatherRows(const KvBlobCache& cache, size_t layer, Position first,
                uint8_t* k, uint8_t* v) {
  const KvBlobLayer& source = cache.layers[layer];
  const size_t k_row =
      source.shape.k_elements * KvElementBytes(source.shape.k_type);
  const size_t v_element = KvElementBytes(source.shape.v_type);
  const size_t v_row = source.shape.v_elements * v_element;
  const size_t cells = cache.positions.size();
  for (size_t cell = 0; cell < cells;) {
    const Run run = RunAt(cache.positions, cell);
    const auto row = static_cast<size_t>(run.position - first);
    std::memcpy(k + row * k_row, source.k + run.cell * k_row,
                run.count * k_row);
    if (cache.v_transposed) {
      Transpose(source.shape.v_type, source.v + run.cell * v_element,
                source.shape.v_elements, run.count, cells * v_element,
                v + row * v_row, v_row);
    } else {
      std::memcpy(v + row * v_row, source.v + run.cell * v_row,
                  run.count * v_row);
    }
    cell += run.count;
  }
}

size_t KvBlobBytes(const KvBlobFormat& format, size_t cell_count) {
  const size_t layer_headers =
      format.layout->layers.size() * (kKHeaderBytes + kVHeaderBytes);
  const size_t cache_headers =
      format.layers_per_cache.size() * (16 + cell_count * kCellHeaderBytes);
  return 8 + cache_headers + layer_headers +
         cell_count * format.layout->BytesPerToken();
}

std::vector<KvBlobSlot> LayOutKvBlob(const KvBlobFormat& format, Position first,
                                     size_t cell_count,
                                     std::vector<uint8_t>* blob) {
  const KvLayout& layout = *format.layout;
  blob->resize(KvBlobBytes(format, cell_count));
  uint8_t* out = blob->data();
  const auto offset = [&] { return static_cast<size_t>(out - blob->data()); };
  std::vector<KvBlobSlot> slots(layout.layers.size());
  Append(format.magic, &out);
  Append(format.sequence, &out);
  size_t begin = 0;
  for (const size_t layer_count : format.layers_per_cache) {
    Append(uint32_t{1}, &out);
    Append(static_cast<uint32_t>(cell_count), &out);
    for (size_t i = 0; i < cell_count; ++i) {
      Append(first + static_cast<Position>(i), &out);
      Append(uint32_t{1}, &out);
      Append(format.sequence, &out);
    }
    Append(uint32_t{layout.v_transposed}, &out);
    Append(static_cast<uint32_t>(layer_count), &out);
    const size_t end = begin + layer_count;
    for (size_t i = begin; i < end; ++i) {
      Append(static_cast<int32_t>(layout.layers[i].k_type), &out);
      Append(uint64_t{layout.RowBytesK(i)}, &out);
      slots[i].k = offset();
      out += cell_count * layout.RowBytesK(i);
    }
    for (size_t i = begin; i < end; ++i) {
      const KvLayerShape& shape = layout.layers[i];
      Append(static_cast<int32_t>(shape.v_type), &out);
      if (layout.v_transposed) {
        Append(static_cast<uint32_t>(KvElementBytes(shape.v_type)), &out);
        Append(shape.v_elements, &out);
      } else {
        Append(uint64_t{layout.RowBytesV(i)}, &out);
      }
      slots[i].v = offset();
      out += cell_count * layout.RowBytesV(i);
    }
    begin = end;
  }
  NEXUS_CHECK(offset() == blob->size());
  return slots;
}

void PlaceV(const KvLayerShape& shape, bool transposed, const void* rows,
            size_t stride, size_t cell_count, uint8_t* out) {
  const auto* in = static_cast<const uint8_t*>(rows);
  const size_t element = KvElementBytes(shape.v_type);
  const size_t row_bytes = shape.v_elements * element;
  if (transposed) {
    Transpose(shape.v_type, in, cell_count, shape.v_elements, stride, out,
              cell_count * element);
  } else if (stride == row_bytes) {
    std::memcpy(out, in, cell_count * row_bytes);
  } else {
    for (size_t i = 0; i < cell_count; ++i) {
      std::memcpy(out + i * row_bytes, in + i * stride, row_bytes);
    }
  }
}

}  // namespace nexus::llm
