#include "nexus/net/sse.h"

#include <algorithm>
#include <utility>

namespace nexus::net {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Digits only, as the grammar says; absent for anything else or over an hour.
std::optional<int> ParseRetry(std::string_view value) {
  constexpr int kMaxRetryMs = 3600 * 1000;
  if (value.empty() || value.size() > 7) return std::nullopt;
  int result = 0;
  for (const char c : value) {
    if (c < '0' || c > '9') return std::nullopt;
    result = result * 10 + (c - '0');
  }
  if (result > kMaxRetryMs) return std::nullopt;
  return result;
}

}  // namespace

SseParser::SseParser(EventCallback on_event, size_t max_event_bytes)
    : on_event_(std::move(on_event)), max_event_bytes_(max_event_bytes) {}

Status SseParser::Feed(std::string_view bytes) {
  if (!error_.ok()) return error_;
  while (!bytes.empty()) {
    if (skip_lf_) {
      skip_lf_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (line_.size() + data_.size() + end > max_event_bytes_) {
      error_ =
          ResourceExhaustedError("event stream: an event is over " +
                                 std::to_string(max_event_bytes_) + " bytes");
      return error_;
    }
    line_.append(bytes.substr(0, end));
    if (end == bytes.size()) break;
    skip_lf_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (Status status = EndLine(); !status.ok()) {
      error_ = std::move(status);
      return error_;
    }
  }
  return {};
}

Status SseParser::EndLine() {
  std::string_view line = line_;
  if (first_line_) {
    first_line_ = false;
    if (line.starts_with(kByteOrderMark)) {
      line.remove_prefix(kByteOrderMark.size());
    }
  }
  if (line.empty()) {
    line_.clear();
    return Dispatch();
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view field = line.substr(0, colon);
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) data_ += '\n';
    data_.append(value);
    has_data_ = true;
  } else if (field == "event") {
    type_ = value;
  } else if (field == "id") {
    if (value.find('\0') == std::string_view::npos) last_id_ = value;
  } else if (field == "retry") {
    if (const auto retry = ParseRetry(value)) retry_ms_ = retry;
  }
  line_.clear();
  return {};
}

Status SseParser::Dispatch() {
  SseEvent event;
  if (!type_.empty()) event.type = std::exchange(type_, {});
  if (!has_data_) return {};
  has_data_ = false;
  event.data = std::exchange(data_, {});
  event.last_id = last_id_;
  if (on_event_(event)) return {};
  return CancelledError("event stream: stopped by its reader");
}

}  // namespace nexus::net
