// Cutting text at a character's border: half a character is what makes JSON and
// terminals choke on a message.
#ifndef NEXUS_BASE_UTF8_CUT_H_
#define NEXUS_BASE_UTF8_CUT_H_

#include <cstddef>
#include <string_view>

namespace nexus {

// The beginning of `text`, at most `max_bytes` of it.
inline std::string_view CutUtf8(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;
  }
  return text.substr(0, end);
}

}  // namespace nexus

#endif  // NEXUS_BASE_UTF8_CUT_H_
