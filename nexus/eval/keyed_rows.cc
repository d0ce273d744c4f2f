#include "nexus/eval/keyed_rows.h"

#include <bit>
#include <cstring>
#include <utility>

namespace nexus::eval {
namespace {

static_assert(std::endian::native == std::endian::little,
              "rows are written as they lie in memory");

constexpr std::string_view kMagic = "NXEMBED1";
constexpr size_t kHeaderBytes = 8 + 32 + 4 + 8 + 8;

template <typename T>
void Append(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T Get(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

const std::vector<float>* KeyedRows::Find(const Sha256Digest& key) const {
  const auto found = rows_.find(key);
  return found == rows_.end() ? nullptr : &found->second;
}

Status KeyedRows::Save(FileSystem& fs, const std::string& path,
                       std::string_view fingerprint, size_t width) const {
  std::string body;
  uint64_t count = 0;
  for (const auto& [key, row] : rows_) {
    if (row.size() != width) continue;
    body.append(reinterpret_cast<const char*>(key.data()), key.size());
    body.append(reinterpret_cast<const char*>(row.data()),
                width * sizeof(float));
    ++count;
  }
  std::string bytes(kMagic);
  Append(Sha256Of(fingerprint), &bytes);
  Append(static_cast<uint32_t>(width), &bytes);
  Append(count, &bytes);
  Append(Xxh3(body.data(), body.size()), &bytes);
  return WriteFileAtomically(fs, path, bytes + body);
}

Status KeyedRows::Load(FileSystem& fs, const std::string& path,
                       std::string_view fingerprint, size_t width) {
  NEXUS_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadFile(path));
  const std::string_view all = bytes;
  if (all.size() < kHeaderBytes || !all.starts_with(kMagic)) {
    return CorruptionError(path + ": not a file of embeddings or scores");
  }
  if (Get<Sha256Digest>(all, 8) != Sha256Of(fingerprint) ||
      Get<uint32_t>(all, 40) != width) {
    return IncompatibleError(path + ": made by another model");
  }
  const std::string_view body = all.substr(kHeaderBytes);
  const size_t row_bytes = 32 + width * sizeof(float);
  if (body.size() % row_bytes != 0 ||
      Get<uint64_t>(all, 44) != body.size() / row_bytes ||
      Get<uint64_t>(all, 52) != Xxh3(body.data(), body.size())) {
    return CorruptionError(path + ": damaged");
  }
  for (size_t at = 0; at < body.size(); at += row_bytes) {
    std::vector<float>& row = rows_[Get<Sha256Digest>(body, at)];
    row.resize(width);
    std::memcpy(row.data(), body.data() + at + 32, width * sizeof(float));
  }
  return Status::Ok();
}

}  // namespace nexus::eval
