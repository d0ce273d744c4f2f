// LineSplitter: cuts a byte stream into lines with a bound on memory. A line
// over the limit is dropped up to its end and reported by its length.
#ifndef NEXUS_MCP_LINE_SPLITTER_H_
#define NEXUS_MCP_LINE_SPLITTER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace nexus::mcp {

// Thread-compatible.
class LineSplitter {
 public:
  struct Callbacks {
    // Without the line end (LF or CRLF); empty lines are skipped. The view
    // lives only during the call.
    std::function<void(std::string_view line)> on_line;
    std::function<void(size_t byte_count)> on_oversized;
  };

  LineSplitter(Callbacks callbacks, size_t max_line_bytes);

  void Feed(std::string_view bytes);
  // What came after the last line end; empty when the last line was ended.
  const std::string& partial() const { return line_; }

 private:
  void EndLine();

  Callbacks callbacks_;
  size_t max_line_bytes_;
  std::string line_;
  size_t dropped_bytes_ = 0;  // > 0: inside an oversized line
};

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_LINE_SPLITTER_H_
