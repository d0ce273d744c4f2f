// BlockWriter: writes a block file, all or nothing.
//
// The checksums stand in front of what they cover, so the contents are hashed
// in one pass and streamed in a second; they are never copied into one buffer.
#ifndef NEXUS_KV_BLOCK_WRITER_H_
#define NEXUS_KV_BLOCK_WRITER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/result.h"
#include "nexus/kv/block_metadata.h"
#include "nexus/kv/block_storage.h"
#include "nexus/llm/kv_access.h"

namespace nexus::kv {

// Views: what they point at must live until the call returns.
struct BlockContents {
  BlockMetadata metadata;
  std::span<const llm::Token> tokens;
  std::span<const llm::KvLayerShape> layers;
  // [layer] -> tokens.size() rows of k_elements (v_elements) of the layer's
  // type, contiguous, as in llm::KvRows.
  std::span<const std::vector<uint8_t>> k;
  std::span<const std::vector<uint8_t>> v;
  std::span<const float> sensitivity;  // one a token, or empty
  // [layer] -> one a token: see SectionType::kValueM2. Or empty.
  std::span<const std::vector<float>> v_m2;
  // The rows above are encoded into this as they are written. A variant is
  // exact and stays as cached.
  BlockStorage storage = {};
};

// Writes to a temporary name, fsyncs, renames, fsyncs the folder. Returns the
// file's size. On any error (kIoError, kResourceExhausted) neither `path` nor a
// temporary file is left behind. kInvalidArgument when the contents contradict
// themselves.
Result<uint64_t> WriteBlockFile(FileSystem& fs, const std::string& path,
                                const BlockContents& contents);

// Size of the file that WriteBlockFile would make, without writing it.
Result<uint64_t> BlockFileBytes(const BlockContents& contents);

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_WRITER_H_
