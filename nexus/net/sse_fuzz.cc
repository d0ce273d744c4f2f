// Fuzz target: a server's event stream. However the network cuts it into
// pieces, the same events come out.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nexus/base/check.h"
#include "nexus/net/sse.h"

namespace {

std::string EventsOf(std::string_view bytes, size_t piece) {
  std::string events;
  nexus::net::SseParser parser(
      [&](const nexus::net::SseEvent& event) {
        events +=
            event.type + "\x1f" + event.data + "\x1f" + event.last_id + "\x1e";
        return true;
      },
      /*max_event_bytes=*/4096);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    const auto status = parser.Feed(bytes.substr(at, piece));
    // Where it is noticed depends on the pieces; that it is doesn't.
    if (!status.ok()) return "over the limit";
  }
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = EventsOf(bytes, std::max<size_t>(size, 1));
  NEXUS_CHECK(EventsOf(bytes, 1) == whole);
  NEXUS_CHECK(EventsOf(bytes, 7) == whole);
  return 0;
}
