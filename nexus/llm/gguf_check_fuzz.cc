// Fuzz target: a model file before the engine, which trusts it, sees it.
#include <cstddef>
#include <cstdint>

#include "nexus/base/check.h"
#include "nexus/llm/gguf_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto summary = nexus::llm::CheckGguf({data, size}, "input");
  if (!summary.ok()) {
    NEXUS_CHECK(!summary.status().message().empty());
    return 0;
  }
  // Where there is nothing, what it would begin at may lie behind the file.
  NEXUS_CHECK(summary->tensor_count == 0 || summary->data_offset <= size);
  return 0;
}
