#include "nexus/kv/fingerprint.h"

#include <cstdint>

#include "nexus/kv/block_format.h"

namespace nexus::kv {
namespace {

void UpdateWithLength(Sha256& hash, std::string_view text) {
  uint8_t length[8];
  StoreLittle<uint64_t>(text.size(), length);
  hash.Update(length, sizeof(length));
  hash.Update(text);
}

std::string_view TypeName(llm::KvType type) {
  return type == llm::KvType::kF32 ? "f32" : "f16";
}

}  // namespace

Sha256Digest Fingerprint::Digest() const {
  Sha256 hash;
  UpdateWithLength(hash, "nexus kv fingerprint 1");
  for (const FingerprintField& field : kFingerprintFields) {
    UpdateWithLength(hash, field.name);
    UpdateWithLength(hash, this->*field.member);
  }
  return hash.Finish();
}

std::string FirstDifference(const Fingerprint& expected,
                            const Fingerprint& found) {
  for (const FingerprintField& field : kFingerprintFields) {
    const std::string& wanted = expected.*field.member;
    const std::string& present = found.*field.member;
    if (wanted == present) continue;
    return std::string(field.name) + ": has '" + present + "', model has '" +
           wanted + "'";
  }
  return "";
}

std::string DescribeKvLayout(const llm::KvLayout& layout) {
  std::string text;
  // Runs of equal layers in one entry: "24x(k 128 f16, v 128 f16)".
  for (size_t begin = 0; begin < layout.layers.size();) {
    const llm::KvLayerShape& shape = layout.layers[begin];
    size_t end = begin + 1;
    while (end < layout.layers.size() && layout.layers[end] == shape) ++end;
    if (begin > 0) text += ", ";
    text += std::to_string(end - begin) + "x(k " +
            std::to_string(shape.k_elements) + " ";
    text += TypeName(shape.k_type);
    text += ", v " + std::to_string(shape.v_elements) + " ";
    text += TypeName(shape.v_type);
    if (shape.sliding_window) {
      text += ", window " + std::to_string(layout.sliding_window);
    }
    text += ")";
    begin = end;
  }
  return text;
}

}  // namespace nexus::kv
