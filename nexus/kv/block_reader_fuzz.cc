// Fuzz target: a block file. Checksums are set right first, else nothing but
// their comparison would be reached; a file that opens is then read whole.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/fuzz/file_input.h"

#include "nexus/base/check.h"
#include "nexus/base/hash.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/block_reader.h"

namespace nexus::kv {
namespace {

void SetChecksums(std::vector<uint8_t>* file) {
  uint8_t* bytes = file->data();
  const size_t size = file->size();
  if (size < kHeaderFixedBytes) return;
  StoreLittle<uint64_t>(size, bytes + kHeaderFileBytesOffset);
  const uint64_t sections = std::min<uint64_t>(
      LoadLittle<uint32_t>(bytes + kHeaderSectionCountOffset),
      (size - kHeaderFixedBytes) / kSectionEntryBytes);
  for (uint64_t i = 0; i < sections; ++i) {
    uint8_t* entry = bytes + kHeaderFixedBytes + i * kSectionEntryBytes;
    const auto offset = LoadLittle<uint64_t>(entry + 8);
    const auto count = LoadLittle<uint64_t>(entry + 16);
    if (offset > size || count > size - offset) continue;
    StoreLittle<uint64_t>(Xxh3(bytes + offset, count), entry + 24);
  }
  const uint64_t header = LoadLittle<uint32_t>(bytes + kHeaderBytesOffset);
  if (header < kHeaderFixedBytes || header > size) return;
  StoreLittle<uint64_t>(0, bytes + kHeaderChecksumOffset);
  StoreLittle<uint64_t>(Xxh3(bytes, header), bytes + kHeaderChecksumOffset);
}

// Touches every mapped byte that a splice would.
void ReadAll(const KvBlock& block) {
  volatile uint64_t sum = 0;
  for (const llm::Token token : block.tokens()) {
    sum = sum + static_cast<uint64_t>(token);
  }
  for (const float value : block.sensitivity()) sum = sum + (value > 0 ? 1 : 0);
  for (size_t i = 0; i < block.layers().size(); ++i) {
    std::vector<float> row(
        std::max(block.layers()[i].k_elements, block.layers()[i].v_elements));
    for (int token = 0; token < block.token_count(); ++token) {
      block.ReadK(i, token, 1, row.data());
      block.ReadV(i, token, 1, row.data());
    }
    for (const float value : block.VM2(i)) sum = sum + (value > 0 ? 1 : 0);
  }
}

}  // namespace
}  // namespace nexus::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  nexus::kv::SetChecksums(&file);
  const auto block =
      nexus::kv::KvBlock::Open(nexus::FileWith(file.data(), file.size()));
  if (block.ok()) {
    nexus::kv::ReadAll(**block);
  } else {
    NEXUS_CHECK(!block.status().message().empty());
  }
  return 0;
}
