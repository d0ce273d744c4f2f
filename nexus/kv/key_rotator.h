// KeyRotator: cosines and sines for a range of tokens, computed once and shared
// by all layers that rotate alike.
#ifndef NEXUS_KV_KEY_ROTATOR_H_
#define NEXUS_KV_KEY_ROTATOR_H_

#include <cstddef>
#include <vector>

#include "nexus/llm/rope_probe.h"

namespace nexus::kv {

// Turns keys between position 0 and [position, position + token_count). Models
// have one setting, or two (Gemma 3's window layers have a base of their own),
// so the tables are kept per distinct setting. `rope` must outlive it.
// Thread-safe after construction.
class KeyRotator {
 public:
  KeyRotator(const llm::RopeSpec& rope, llm::Position position,
             int token_count);

  // One K row of `layer`: from position 0 to that of `token`. Float16 bits.
  void Rotate(size_t layer, int token, const uint16_t* in, uint16_t* out) const;
  void Rotate(size_t layer, int token, const float* in, float* out) const;
  // From the token's position back to 0, in float32.
  void Unrotate(size_t layer, int token, const uint16_t* in, float* out) const;
  void Unrotate(size_t layer, int token, const float* in, float* out) const;

  size_t byte_count() const;

 private:
  struct Table {
    size_t pairs = 0;
    // [token, pair]
    std::vector<float> cos;
    std::vector<float> sin;
    std::vector<float> negated_sin;
  };
  const float* Row(const std::vector<float>& table, size_t layer,
                   int token) const;

  std::vector<Table> tables_;
  std::vector<size_t> table_of_layer_;
  std::vector<simd::RopeRowShape> shapes_;  // [layer]
};

}  // namespace nexus::kv

#endif  // NEXUS_KV_KEY_ROTATOR_H_
