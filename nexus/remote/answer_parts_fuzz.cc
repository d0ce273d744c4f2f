// Fuzz target: what a remote answers, as events and as JSON. Whole answers and
// chunks of any shape are taken apart without harm.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nexus/base/check.h"
#include "nexus/net/sse.h"
#include "nexus/remote/answer_parts.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  nexus::remote::AnswerParts streamed;
  nexus::net::SseParser parser([&](const nexus::net::SseEvent& event) {
    const auto chunk = nexus::ParseJson(event.data, "remote");
    if (!chunk.ok()) return true;
    (void)nexus::remote::HasCallFragment(*chunk);
    streamed.AddChunk(*chunk);
    return true;
  });
  (void)parser.Feed(text);
  // Escapes only shrink: nothing is made up.
  NEXUS_CHECK(streamed.content().size() <= size);
  const auto whole = nexus::ParseJson(text, "remote");
  if (whole.ok()) (void)nexus::remote::AnswerParts::OfWhole(*whole).calls();
  return 0;
}
