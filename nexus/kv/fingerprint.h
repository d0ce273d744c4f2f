// Fingerprint: everything that a stored key or value depends on besides the
// tokens.
//
// Kept as texts and not only as a digest, so that a mismatch can be explained:
// a block of another model, template or engine is refused with the field's name
// and both values, never used on a guess.
#ifndef NEXUS_KV_FINGERPRINT_H_
#define NEXUS_KV_FINGERPRINT_H_

#include <array>
#include <string>
#include <string_view>

#include "nexus/base/hash.h"
#include "nexus/llm/kv_access.h"

namespace nexus::kv {

struct Fingerprint {
  std::string model_sha256;  // of the weights file, vocabulary and all
  std::string architecture;  // "qwen2"
  // Kind and size of the vocabulary: "gpt2, 151936 tokens".
  std::string tokenizer;
  // Of the template's source; of the empty string when there is none.
  std::string chat_template_sha256;
  std::string rope;            // llm::RopeSpec::Describe()
  std::string kv_layout;       // DescribeKvLayout()
  std::string engine_version;  // llm::EngineVersion()

  // SHA-256 over names and values; length-prefixed, so no two differ only by
  // where one field ends.
  Sha256Digest Digest() const;

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct FingerprintField {
  std::string_view name;
  std::string Fingerprint::*member;
};

// In the order in which differences are looked for: the most telling first.
inline constexpr std::array<FingerprintField, 7> kFingerprintFields = {{
    {"model_sha256", &Fingerprint::model_sha256},
    {"architecture", &Fingerprint::architecture},
    {"tokenizer", &Fingerprint::tokenizer},
    {"chat_template_sha256", &Fingerprint::chat_template_sha256},
    {"rope", &Fingerprint::rope},
    {"kv_layout", &Fingerprint::kv_layout},
    {"engine_version", &Fingerprint::engine_version},
}};

// "rope: block has 'base 10000 ...', model has 'base 1000000 ...'"; empty when
// the two are equal. `expected` is the running model's, `found` the block's.
std::string FirstDifference(const Fingerprint& expected,
                            const Fingerprint& found);

// Stable text of the shapes and element types of all layers. Whether the live
// cache transposes V is left out: blocks are row-major either way.
std::string DescribeKvLayout(const llm::KvLayout& layout);

}  // namespace nexus::kv

#endif  // NEXUS_KV_FINGERPRINT_H_
