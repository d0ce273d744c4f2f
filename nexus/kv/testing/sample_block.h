// SampleBlock: owned contents for tests of the format and the store.
#ifndef NEXUS_KV_TESTING_SAMPLE_BLOCK_H_
#define NEXUS_KV_TESTING_SAMPLE_BLOCK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/block_writer.h"

namespace nexus::kv::testing {

struct SampleOptions {
  int token_count = 3;
  int layer_count = 2;
  uint32_t k_elements = 4;
  uint32_t v_elements = 6;
  llm::Token first_token = 100;  // another one: another key
  int generation = 0;
  std::string tool_name = "weather/get_forecast";
};

class SampleBlock {
 public:
  explicit SampleBlock(const SampleOptions& options = {}) {
    for (int i = 0; i < options.token_count; ++i) {
      tokens_.push_back(options.first_token + i);
      sensitivity_.push_back(0.5F * static_cast<float>(i));
    }
    v_m2_.assign(static_cast<size_t>(options.layer_count), sensitivity_);
    const auto count = static_cast<size_t>(options.token_count);
    uint8_t next = 1;  // every row byte differs from its neighbours
    for (int layer = 0; layer < options.layer_count; ++layer) {
      layers_.push_back({.k_elements = options.k_elements,
                         .v_elements = options.v_elements,
                         .k_type = llm::KvType::kF16,
                         .v_type = llm::KvType::kF16,
                         .sliding_window = layer == 1});
      k_.emplace_back(count * options.k_elements * 2);
      v_.emplace_back(count * options.v_elements * 2);
      for (uint8_t& byte : k_.back()) byte = next++;
      for (uint8_t& byte : v_.back()) byte = next++;
    }
    metadata_.fingerprint = {.model_sha256 = std::string(64, 'a'),
                             .architecture = "qwen2",
                             .tokenizer = "bpe 151936",
                             .chat_template_sha256 = std::string(64, 'b'),
                             .rope = "half-split 64 of 64, base 1000000",
                             .kv_layout = "2x(k 4 f16, v 6 f16)",
                             .engine_version = "llama.cpp v0.4.0"};
    metadata_.recipe = "late/4";
    metadata_.tool_name = options.tool_name;
    metadata_.schema_hash = std::string(64, 'c');
    metadata_.content = SpliceContent(tokens_, metadata_.recipe);
    metadata_.context_count = 4;
    metadata_.generation = options.generation;
  }

  BlockContents Contents() const {
    return {.metadata = metadata_,
            .tokens = tokens_,
            .layers = layers_,
            .k = k_,
            .v = v_,
            .sensitivity = sensitivity_,
            .v_m2 = v_m2_};
  }
  BlockKey Key() const { return metadata_.Key(); }
  BlockMetadata& metadata() { return metadata_; }
  std::vector<float>& sensitivity() { return sensitivity_; }
  std::vector<std::vector<float>>& v_m2() { return v_m2_; }
  const std::vector<std::vector<uint8_t>>& k() const { return k_; }
  const std::vector<std::vector<uint8_t>>& v() const { return v_; }

 private:
  BlockMetadata metadata_;
  std::vector<llm::Token> tokens_;
  std::vector<llm::KvLayerShape> layers_;
  std::vector<std::vector<uint8_t>> k_;
  std::vector<std::vector<uint8_t>> v_;
  std::vector<float> sensitivity_;
  std::vector<std::vector<float>> v_m2_;
};

// Puts the right checksum on a header that a test has changed: what is left to
// find is then the structure alone.
inline void Reseal(std::string* file) {
  auto* bytes = reinterpret_cast<uint8_t*>(file->data());
  StoreLittle(uint64_t{0}, bytes + kHeaderChecksumOffset);
  const auto header_bytes = LoadLittle<uint32_t>(bytes + kHeaderBytesOffset);
  StoreLittle(Xxh3(bytes, header_bytes), bytes + kHeaderChecksumOffset);
}

}  // namespace nexus::kv::testing

#endif  // NEXUS_KV_TESTING_SAMPLE_BLOCK_H_
