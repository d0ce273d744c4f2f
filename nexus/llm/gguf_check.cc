#include "nexus/llm/gguf_check.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ggml.h"
#include "gguf.h"

namespace nexus::llm {
namespace {

constexpr uint32_t kOldestVersion = 2;  // 1 had 32-bit counts
constexpr uint64_t kMaxKeys = 1 << 16;
constexpr uint64_t kMaxTensors = 1 << 20;

// Bytes of an element, 0 for types without a fixed size.
size_t ScalarBytes(uint32_t type) {
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_INT8:
    case GGUF_TYPE_BOOL:
      return 1;
    case GGUF_TYPE_UINT16:
    case GGUF_TYPE_INT16:
      return 2;
    case GGUF_TYPE_UINT32:
    case GGUF_TYPE_INT32:
    case GGUF_TYPE_FLOAT32:
      return 4;
    case GGUF_TYPE_UINT64:
    case GGUF_TYPE_INT64:
    case GGUF_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

// Reads little-endian values in order; every read checks what is left first.
class Cursor {
 public:
  Cursor(std::span<const uint8_t> bytes, const std::string& path)
      : bytes_(bytes), path_(path) {}

  uint64_t offset() const { return offset_; }
  uint64_t left() const { return bytes_.size() - offset_; }

  template <typename T>
  Status Read(T* value, std::string_view what) {
    if (left() < sizeof(T)) return Truncated(what);
    std::memcpy(value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return Status::Ok();
  }

  Status ReadString(std::string_view* text, std::string_view what) {
    uint64_t size = 0;
    NEXUS_RETURN_IF_ERROR(Read(&size, what));
    if (left() < size) return Truncated(what);
    *text = {reinterpret_cast<const char*>(bytes_.data() + offset_),
             static_cast<size_t>(size)};
    offset_ += size;
    return Status::Ok();
  }

  Status Skip(uint64_t count, uint64_t element_bytes, std::string_view what) {
    if (count > left() / element_bytes) return Truncated(what);
    offset_ += count * element_bytes;
    return Status::Ok();
  }

  Status Bad(std::string_view message) const {
    return CorruptionError(path_ + ": offset " + std::to_string(offset_) +
                           ": " + std::string(message) +
                           "; the file is damaged, fetch it again");
  }

 private:
  Status Truncated(std::string_view what) const {
    return Bad("file ends inside " + std::string(what) + " (" +
               std::to_string(bytes_.size()) + " bytes in all)");
  }

  std::span<const uint8_t> bytes_;
  const std::string& path_;
  uint64_t offset_ = 0;
};

Status ReadInteger(Cursor& in, uint32_t type, int64_t* value) {
  const auto read = [&](auto typed) {
    Status status = in.Read(&typed, "a value");
    *value = static_cast<int64_t>(typed);
    return status;
  };
  switch (type) {
    case GGUF_TYPE_UINT8:
    case GGUF_TYPE_BOOL:
      return read(uint8_t{});
    case GGUF_TYPE_INT8:
      return read(int8_t{});
    case GGUF_TYPE_UINT16:
      return read(uint16_t{});
    case GGUF_TYPE_INT16:
      return read(int16_t{});
    case GGUF_TYPE_UINT32:
      return read(uint32_t{});
    case GGUF_TYPE_INT32:
      return read(int32_t{});
    case GGUF_TYPE_UINT64:
      return read(uint64_t{});
    case GGUF_TYPE_INT64:
      return read(int64_t{});
    default:
      return in.Skip(1, ScalarBytes(type), "a value");
  }
}

Status ReadValue(Cursor& in, std::string_view key, GgufSummary* summary) {
  uint32_t type = 0;
  NEXUS_RETURN_IF_ERROR(in.Read(&type, "the type of key " + std::string(key)));
  if (type == GGUF_TYPE_STRING) {
    std::string_view text;
    NEXUS_RETURN_IF_ERROR(in.ReadString(&text, key));
    if (key == "general.architecture") summary->architecture = text;
    if (key.ends_with(".rope.scaling.type")) summary->rope_scaling = text;
    return Status::Ok();
  }
  if (type == GGUF_TYPE_ARRAY) {
    uint32_t element = 0;
    uint64_t count = 0;
    NEXUS_RETURN_IF_ERROR(in.Read(&element, key));
    NEXUS_RETURN_IF_ERROR(in.Read(&count, key));
    summary->array_sizes.emplace(key, count);
    if (element == GGUF_TYPE_STRING) {
      std::unordered_set<std::string_view> seen;
      const bool unique = key == "tokenizer.ggml.tokens";
      std::string_view text;
      for (uint64_t i = 0; i < count; ++i) {
        NEXUS_RETURN_IF_ERROR(in.ReadString(&text, key));
        if (unique && !seen.insert(text).second) {
          return in.Bad("token " + std::to_string(i) +
                        " has the text of another token");
        }
      }
      return Status::Ok();
    }
    const size_t element_bytes = ScalarBytes(element);
    if (element_bytes == 0) {
      return in.Bad("array '" + std::string(key) + "' has elements of type " +
                    std::to_string(element));
    }
    return in.Skip(count, element_bytes, key);
  }
  if (ScalarBytes(type) == 0) {
    return in.Bad("key '" + std::string(key) + "' has type " +
                  std::to_string(type));
  }
  int64_t value = 0;
  NEXUS_RETURN_IF_ERROR(ReadInteger(in, type, &value));
  if (type != GGUF_TYPE_FLOAT32 && type != GGUF_TYPE_FLOAT64) {
    summary->integers.emplace(key, value);
  }
  return Status::Ok();
}

// Reads one tensor's entry; `*end` is the end of its data relative to the data
// section.
Status ReadTensor(Cursor& in, uint64_t alignment, uint64_t* end) {
  std::string_view name;
  NEXUS_RETURN_IF_ERROR(in.ReadString(&name, "a tensor's name"));
  const std::string quoted = "tensor '" + std::string(name.substr(0, 64)) + "'";
  uint32_t dims = 0;
  NEXUS_RETURN_IF_ERROR(in.Read(&dims, quoted));
  if (dims == 0 || dims > GGML_MAX_DIMS) {
    return in.Bad(quoted + " has " + std::to_string(dims) + " dimensions");
  }
  constexpr uint64_t kMaxElements = uint64_t{1} << 48;
  uint64_t elements = 1;
  uint64_t row = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    uint64_t size = 0;
    NEXUS_RETURN_IF_ERROR(in.Read(&size, quoted));
    if (size == 0 || size > kMaxElements / elements) {
      return in.Bad(quoted + " has an impossible dimension " +
                    std::to_string(size));
    }
    elements *= size;
    if (i == 0) row = size;
  }
  uint32_t type = 0;
  uint64_t offset = 0;
  NEXUS_RETURN_IF_ERROR(in.Read(&type, quoted));
  NEXUS_RETURN_IF_ERROR(in.Read(&offset, quoted));
  if (type >= GGML_TYPE_COUNT ||
      ggml_blck_size(static_cast<ggml_type>(type)) == 0) {
    return in.Bad(quoted + " has unknown type " + std::to_string(type));
  }
  const auto ggml = static_cast<ggml_type>(type);
  const auto block = static_cast<uint64_t>(ggml_blck_size(ggml));
  if (row % block != 0) {
    return in.Bad(quoted + " has rows of " + std::to_string(row) +
                  " elements, not a multiple of " + std::to_string(block));
  }
  if (offset % alignment != 0) {
    return in.Bad(quoted + " starts at unaligned offset " +
                  std::to_string(offset));
  }
  const uint64_t bytes = elements / block * ggml_type_size(ggml);
  if (offset > std::numeric_limits<uint64_t>::max() - bytes) {
    return in.Bad(quoted + " has an impossible offset");
  }
  *end = offset + bytes;
  return Status::Ok();
}

// Values that the engine asserts on, which would end the process.
Status CheckValues(const GgufSummary& summary, const std::string& path) {
  const auto integer = [&](std::string_view name, int64_t fallback) {
    const auto it =
        summary.integers.find(summary.architecture + "." + std::string(name));
    return it == summary.integers.end() ? fallback : it->second;
  };
  const auto bad = [&](const std::string& what) {
    return CorruptionError(path + ": " + what +
                           "; the file is damaged, fetch it again");
  };
  constexpr int64_t kMaxLayers = 512;
  constexpr int64_t kMaxExperts = 1024;
  if (const int64_t layers = integer("block_count", 1);
      layers < 1 || layers > kMaxLayers) {
    return bad("block_count is " + std::to_string(layers) + ", not 1 to " +
               std::to_string(kMaxLayers));
  }
  const int64_t experts = integer("expert_count", 0);
  const int64_t used = integer("expert_used_count", experts > 0 ? 1 : 0);
  if (experts < 0 || experts > kMaxExperts || used > experts || used < 0 ||
      (experts > 0 && used == 0)) {
    return bad("expert_count " + std::to_string(experts) +
               " and expert_used_count " + std::to_string(used) +
               " don't fit together");
  }
  const std::string& scaling = summary.rope_scaling;
  if (!scaling.empty() && scaling != "none" && scaling != "linear" &&
      scaling != "yarn" && scaling != "longrope") {
    return bad("unknown rope.scaling.type '" + scaling.substr(0, 40) + "'");
  }
  return Status::Ok();
}

}  // namespace

Result<GgufSummary> CheckGguf(std::span<const uint8_t> bytes,
                              const std::string& path) {
  if (bytes.size() < 4 || std::memcmp(bytes.data(), GGUF_MAGIC, 4) != 0) {
    return CorruptionError(path +
                           ": not a GGUF model: it doesn't begin with 'GGUF'; "
                           "give the path of a .gguf file");
  }
  GgufSummary summary;
  Cursor in(bytes, path);
  NEXUS_RETURN_IF_ERROR(in.Skip(4, 1, "the magic"));
  NEXUS_RETURN_IF_ERROR(in.Read(&summary.version, "the header"));
  if (summary.version < kOldestVersion || summary.version > GGUF_VERSION) {
    return UnimplementedError(
        path + ": GGUF version " + std::to_string(summary.version) +
        "; the engine reads versions " + std::to_string(kOldestVersion) +
        " to " + std::to_string(GGUF_VERSION) + ", little-endian");
  }
  uint64_t key_count = 0;
  NEXUS_RETURN_IF_ERROR(in.Read(&summary.tensor_count, "the header"));
  NEXUS_RETURN_IF_ERROR(in.Read(&key_count, "the header"));
  if (summary.tensor_count > kMaxTensors || key_count > kMaxKeys) {
    return in.Bad("impossible counts: " + std::to_string(summary.tensor_count) +
                  " tensors, " + std::to_string(key_count) + " keys");
  }
  for (uint64_t i = 0; i < key_count; ++i) {
    std::string_view key;
    NEXUS_RETURN_IF_ERROR(in.ReadString(&key, "a key"));
    if (key.size() > 1024) return in.Bad("a key longer than 1024 bytes");
    NEXUS_RETURN_IF_ERROR(ReadValue(in, key, &summary));
  }
  NEXUS_RETURN_IF_ERROR(CheckValues(summary, path));
  uint64_t alignment = GGUF_DEFAULT_ALIGNMENT;
  if (const auto it = summary.integers.find(GGUF_KEY_GENERAL_ALIGNMENT);
      it != summary.integers.end()) {
    const int64_t value = it->second;
    if (value <= 0 || value > (1 << 20) || (value & (value - 1)) != 0) {
      return in.Bad("alignment " + std::to_string(value) +
                    " isn't a power of two");
    }
    alignment = static_cast<uint64_t>(value);
  }
  uint64_t data_bytes = 0;
  for (uint64_t i = 0; i < summary.tensor_count; ++i) {
    uint64_t end = 0;
    NEXUS_RETURN_IF_ERROR(ReadTensor(in, alignment, &end));
    data_bytes = std::max(data_bytes, end);
  }
  summary.data_offset = (in.offset() + alignment - 1) / alignment * alignment;
  if (data_bytes > 0 && (summary.data_offset > bytes.size() ||
                         bytes.size() - summary.data_offset < data_bytes)) {
    return CorruptionError(path + ": truncated: its tensors need " +
                           std::to_string(summary.data_offset + data_bytes) +
                           " bytes, the file has " +
                           std::to_string(bytes.size()) + "; fetch it again");
  }
  return summary;
}

}  // namespace nexus::llm
