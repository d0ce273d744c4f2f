// A bounds-checked walk over a GGUF header, before the engine sees the file.
//
// The engine's own reader stops at most damage with a log line, but some files
// reach assertions that end the process, and a truncated file is reported as a
// tensor out of bounds. This walk finds out first, and says it in words a user
// can act on. Internal to nexus/llm.
#ifndef NEXUS_LLM_GGUF_CHECK_H_
#define NEXUS_LLM_GGUF_CHECK_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "nexus/base/result.h"

namespace nexus::llm {

struct GgufSummary {
  std::string architecture;
  uint32_t version = 0;
  uint64_t tensor_count = 0;
  uint64_t data_offset = 0;
  // Number of elements of each array, and the value of each scalar integer.
  std::map<std::string, uint64_t, std::less<>> array_sizes;
  std::map<std::string, int64_t, std::less<>> integers;
  std::string rope_scaling;
};

// kCorruption with the path and the offset, kUnimplemented for a version that
// the engine can't read. `bytes` is the whole file.
Result<GgufSummary> CheckGguf(std::span<const uint8_t> bytes,
                              const std::string& path);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_GGUF_CHECK_H_
