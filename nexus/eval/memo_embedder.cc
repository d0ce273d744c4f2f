#include "nexus/eval/memo_embedder.h"

#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

namespace nexus::eval {
namespace {

static_assert(std::endian::native == std::endian::little,
              "vectors are written as they lie in memory");

constexpr std::string_view kMagic = "NXEMBED1";
constexpr size_t kHeaderBytes = 8 + 32 + 4 + 8 + 8;

Sha256Digest KeyOf(const std::string& text, llm::TextRole role) {
  Sha256 hash;
  hash.Update(role == llm::TextRole::kQuery ? "q" : "d");
  hash.Update(text);
  return hash.Finish();
}

template <typename T>
void Put(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T Get(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

Result<std::vector<std::vector<float>>> MemoEmbedder::Embed(
    std::span<const std::string> texts, llm::TextRole role) {
  std::vector<Sha256Digest> keys;
  std::vector<std::string> missing;
  std::vector<Sha256Digest> missing_keys;
  for (const std::string& text : texts) {
    keys.push_back(KeyOf(text, role));
    if (!known_.contains(keys.back())) {
      missing.push_back(text);
      missing_keys.push_back(keys.back());
    }
  }
  if (!missing.empty()) {
    NEXUS_ASSIGN_OR_RETURN(auto vectors, encoder_.Embed(missing, role));
    if (vectors.size() != missing.size()) {
      return InternalError("the encoder gave " +
                           std::to_string(vectors.size()) + " vectors for " +
                           std::to_string(missing.size()) + " texts");
    }
    embedded_count_ += static_cast<int>(missing.size());
    for (size_t i = 0; i < missing.size(); ++i) {
      known_[missing_keys[i]] = std::move(vectors[i]);
    }
  }
  std::vector<std::vector<float>> out;
  out.reserve(keys.size());
  for (const Sha256Digest& key : keys) out.push_back(known_.at(key));
  return out;
}

Status MemoEmbedder::Save(FileSystem& fs, const std::string& path) const {
  const auto width = static_cast<size_t>(dimension());
  std::string body;
  uint64_t count = 0;
  for (const auto& [key, vector] : known_) {
    if (vector.size() != width) continue;
    body.append(reinterpret_cast<const char*>(key.data()), key.size());
    body.append(reinterpret_cast<const char*>(vector.data()),
                width * sizeof(float));
    ++count;
  }
  std::string bytes(kMagic);
  Put(Sha256Of(fingerprint()), &bytes);
  Put(static_cast<uint32_t>(width), &bytes);
  Put(count, &bytes);
  Put(Xxh3(body.data(), body.size()), &bytes);
  return WriteFileAtomically(fs, path, bytes + body);
}

Status MemoEmbedder::Load(FileSystem& fs, const std::string& path) {
  NEXUS_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadFile(path));
  const std::string_view all = bytes;
  if (all.size() < kHeaderBytes || !all.starts_with(kMagic)) {
    return CorruptionError(path + ": not a file of embeddings");
  }
  const auto width = static_cast<size_t>(dimension());
  if (Get<Sha256Digest>(all, 8) != Sha256Of(fingerprint()) ||
      Get<uint32_t>(all, 40) != width) {
    return IncompatibleError(path + ": embeddings of another encoder");
  }
  const std::string_view body = all.substr(kHeaderBytes);
  const size_t row_bytes = 32 + width * sizeof(float);
  if (body.size() % row_bytes != 0 ||
      Get<uint64_t>(all, 44) != body.size() / row_bytes ||
      Get<uint64_t>(all, 52) != Xxh3(body.data(), body.size())) {
    return CorruptionError(path + ": damaged embeddings");
  }
  for (size_t at = 0; at < body.size(); at += row_bytes) {
    std::vector<float>& vector = known_[Get<Sha256Digest>(body, at)];
    vector.resize(width);
    std::memcpy(vector.data(), body.data() + at + 32, width * sizeof(float));
  }
  return Status::Ok();
}

}  // namespace nexus::eval
