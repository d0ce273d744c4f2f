// Terminal: what people see. Results go to standard output, progress and notes
// to standard error; colours and progress bars only where a terminal is.
#ifndef NEXUS_CLI_TERMINAL_H_
#define NEXUS_CLI_TERMINAL_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nexus::cli {

enum class Style { kPlain, kBold, kDim, kGood, kWarn, kBad, kAccent };

// Honours NO_COLOR and TERM=dumb.
bool StdoutHasColour();
bool StderrIsTerminal();
// Columns of the terminal; 80 when there is none.
int TerminalWidth();

std::string Styled(std::string_view text, Style style);

// "1.5 MB", "312 ms", "12,345".
std::string FormatBytes(uint64_t bytes);
std::string FormatMs(double ms);
std::string FormatCount(int64_t count);

// Text from outside, safe to show: control characters but line ends and tabs
// become a visible replacement, so that no server can drive the terminal.
// Returned as it is when standard output isn't a terminal.
std::string Printable(std::string_view text);
// The same on one line, always replaced.
std::string OneLine(std::string_view text);

// Cells of display width, double-width characters counted as two.
size_t DisplayWidth(std::string_view text);
// Cut to `width` cells, with an ellipsis.
std::string Shorten(std::string_view text, size_t width);

// Left-aligned columns; a column whose cells are all numbers is right-aligned.
class Table {
 public:
  explicit Table(std::vector<std::string> header);
  void AddRow(std::vector<std::string> row);
  // The last column is cut to fit the terminal.
  std::string Render() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Horizontal bars to one scale: the picture of where the time went.
struct Bar {
  std::string label;
  double value = 0;
  std::string note;
};
std::string RenderBars(const std::vector<Bar>& bars);

// One line on standard error that rewrites itself: bar, share, note. Without a
// terminal it prints a plain line every few seconds, so that logs show life.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Update(double share, std::string_view note);
  // Wipes the line.
  void Done();

 private:
  std::string label_;
  std::chrono::steady_clock::time_point last_{};
  bool drawn_ = false;
};

// A note on standard error, "nexus: text".
void Note(std::string_view text);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_TERMINAL_H_
