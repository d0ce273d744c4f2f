#include "nexus/mcp/line_splitter.h"

#include <algorithm>
#include <utility>

namespace nexus::mcp {

LineSplitter::LineSplitter(Callbacks callbacks, size_t max_line_bytes)
    : callbacks_(std::move(callbacks)), max_line_bytes_(max_line_bytes) {}

void LineSplitter::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    if (dropped_bytes_ > 0) {
      dropped_bytes_ += end;
    } else if (line_.size() + end > max_line_bytes_) {
      dropped_bytes_ = line_.size() + end;
      line_ = {};  // gives the memory back, which clear() doesn't
    } else {
      line_.append(bytes.substr(0, end));
    }
    if (end == bytes.size()) return;
    bytes.remove_prefix(end + 1);
    EndLine();
  }
}

void LineSplitter::EndLine() {
  if (dropped_bytes_ > 0) {
    callbacks_.on_oversized(std::exchange(dropped_bytes_, 0));
    return;
  }
  std::string_view line = line_;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.empty()) callbacks_.on_line(line);
  line_.clear();
}

}  // namespace nexus::mcp
