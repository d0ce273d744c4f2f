// SseParser: turns the bytes of a text/event-stream body into events, however
// the network cut them into pieces.
//
// Follows the WHATWG event-stream grammar: CR, LF and CRLF end a line, a
// leading BOM is skipped, "data" lines are joined with LF, a line that starts
// with ':' is a comment, and an event without a "data" line is not dispatched.
#ifndef NEXUS_NET_SSE_H_
#define NEXUS_NET_SSE_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "nexus/base/status.h"

namespace nexus::net {

struct SseEvent {
  std::string type = "message";
  std::string data;
  // The last "id" field seen so far in the stream, this event's or an older
  // one's: what a client sends as Last-Event-ID to resume after this event.
  std::string last_id;
};

// Thread-compatible.
class SseParser {
 public:
  // Returning false stops the parse: Feed() then returns kCancelled.
  using EventCallback = std::function<bool(const SseEvent&)>;

  // An event (or a single line) over `max_event_bytes` is kResourceExhausted.
  explicit SseParser(EventCallback on_event,
                     size_t max_event_bytes = size_t{16} << 20);

  // After an error every further Feed() returns the same error.
  Status Feed(std::string_view bytes);

  const std::string& last_event_id() const { return last_id_; }
  // The server's wish for the pause before a reconnect.
  std::optional<int> retry_ms() const { return retry_ms_; }

 private:
  Status EndLine();
  Status Dispatch();

  EventCallback on_event_;
  size_t max_event_bytes_;
  Status error_;
  std::string line_;
  std::string type_;
  std::string data_;
  std::string last_id_;
  std::optional<int> retry_ms_;
  bool has_data_ = false;
  bool skip_lf_ = false;    // the last byte was a CR
  bool first_line_ = true;  // a BOM may still come
};

}  // namespace nexus::net

#endif  // NEXUS_NET_SSE_H_
