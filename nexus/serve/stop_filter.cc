#include "nexus/serve/stop_filter.h"

#include <algorithm>
#include <utility>

namespace nexus::serve {
namespace {

// Bytes at the end that begin a character without ending it.
size_t OpenCharacter(std::string_view text) {
  const size_t most = std::min<size_t>(3, text.size());
  for (size_t back = 1; back <= most; ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;  // a continuation
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

// The longest end of `text` that is the beginning of `stop`, not all of it.
size_t OpenStop(std::string_view text, std::string_view stop) {
  for (size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.ends_with(stop.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

std::string StopFilter::Feed(std::string_view piece) {
  if (stopped_) return {};
  pending_ += piece;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) {
    end = std::min(end, pending_.find(stop));
  }
  if (end != std::string::npos) {
    stopped_ = true;
    pending_.resize(end);
    return std::exchange(pending_, {});
  }
  size_t held = OpenCharacter(pending_);
  for (const std::string& stop : stops_) {
    held = std::max(held, OpenStop(pending_, stop));
  }
  std::string out = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, out.size());
  return out;
}

std::string StopFilter::Flush() { return std::exchange(pending_, {}); }

}  // namespace nexus::serve
