#include "nexus/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "nexus/cli/log.h"

namespace nexus::cli {
namespace {

bool HasColour(int fd) {
  if (std::getenv("NO_COLOR") != nullptr) return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return ::isatty(fd) == 1;
}

std::string_view Code(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\033[1m";
    case Style::kDim:
      return "\033[2m";
    case Style::kGood:
      return "\033[32m";
    case Style::kWarn:
      return "\033[33m";
    case Style::kBad:
      return "\033[31m";
    case Style::kAccent:
      return "\033[36m";
  }
  return "";
}

// Length of the UTF-8 sequence that begins with `lead`; stray bytes count as
// one.
size_t SequenceLength(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte >= 0xF0) return 4;
  if (byte >= 0xE0) return 3;
  if (byte >= 0xC0) return 2;
  return 1;
}

// CJK and emoji take two cells; three- and four-byte sequences that do begin
// with these leads. Box drawing, arrows and punctuation (0xE2) take one.
size_t CellsOf(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte >= 0xE3 && byte != 0xEF ? 2 : 1;
}

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789.,-+%x ") == std::string_view::npos;
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const size_t cells = DisplayWidth(text);
  const std::string spaces(width > cells ? width - cells : 0, ' ');
  return right ? spaces + text : text + spaces;
}

std::string Blocks(double share, int width) {
  // Eighths of a cell, so that small differences show.
  static constexpr const char* kEighths[] = {"",  "▏", "▎", "▍",
                                             "▌", "▋", "▊", "▉"};
  const int eighths =
      static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width * 8));
  std::string bar;
  for (int i = 0; i < eighths / 8; ++i) bar += "█";
  bar += kEighths[eighths % 8];
  return bar;
}

}  // namespace

bool StdoutHasColour() {
  static const bool has = HasColour(STDOUT_FILENO);
  return has;
}

bool StderrIsTerminal() {
  static const bool is = HasColour(STDERR_FILENO);
  return is;
}

int TerminalWidth() {
  winsize size{};
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      return size.ws_col;
    }
  }
  return 80;
}

std::string Styled(std::string_view text, Style style) {
  if (!StdoutHasColour() || style == Style::kPlain) return std::string(text);
  return std::string(Code(style)) + std::string(text) + "\033[0m";
}

std::string FormatBytes(uint64_t bytes) {
  char text[32];
  const double value = static_cast<double>(bytes);
  if (bytes >= 1000000000) {
    std::snprintf(text, sizeof text, "%.1f GB", value / 1e9);
  } else if (bytes >= 1000000) {
    std::snprintf(text, sizeof text, "%.1f MB", value / 1e6);
  } else if (bytes >= 1000) {
    std::snprintf(text, sizeof text, "%.1f kB", value / 1e3);
  } else {
    std::snprintf(text, sizeof text, "%d B", static_cast<int>(bytes));
  }
  return text;
}

std::string FormatMs(double ms) {
  char text[32];
  if (ms >= 10000) {
    std::snprintf(text, sizeof text, "%.1f s", ms / 1000);
  } else if (ms >= 100) {
    std::snprintf(text, sizeof text, "%.0f ms", ms);
  } else if (ms >= 1) {
    std::snprintf(text, sizeof text, "%.1f ms", ms);
  } else {
    std::snprintf(text, sizeof text, "%.0f us", ms * 1000);
  }
  return text;
}

std::string FormatCount(int64_t count) {
  std::string digits = std::to_string(count < 0 ? -count : count);
  for (auto at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return count < 0 ? "-" + digits : digits;
}

namespace {

// C0 but what `keep` holds, DEL, and C1 (two bytes in UTF-8) become "?".
std::string WithoutControls(std::string_view text, std::string_view keep,
                            std::string_view to_space) {
  std::string safe;
  safe.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() &&
                    static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (to_space.find(text[i]) != std::string_view::npos) {
      safe += ' ';
    } else if (c1 || byte == 0x7F ||
               (byte < 0x20 && keep.find(text[i]) == std::string_view::npos)) {
      safe += '?';
    } else {
      safe += text[i];
    }
  }
  return safe;
}

}  // namespace

std::string Printable(std::string_view text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  return terminal ? WithoutControls(text, "\n\t", "") : std::string(text);
}

std::string OneLine(std::string_view text) {
  return WithoutControls(text, "", "\n\r\t");
}

size_t DisplayWidth(std::string_view text) {
  size_t cells = 0;
  for (size_t i = 0; i < text.size(); i += SequenceLength(text[i])) {
    cells += CellsOf(text[i]);
  }
  return cells;
}

std::string Shorten(std::string_view text, size_t width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width == 0) return "";
  size_t cells = 0;
  size_t i = 0;
  while (i < text.size() && cells + CellsOf(text[i]) < width) {
    cells += CellsOf(text[i]);
    i += SequenceLength(text[i]);
  }
  return std::string(text.substr(0, i)) + "…";
}

Table::Table(std::vector<std::string> header) {
  rows_.push_back(std::move(header));
}

void Table::AddRow(std::vector<std::string> row) {
  for (std::string& cell : row) cell = OneLine(cell);
  rows_.push_back(std::move(row));
}

std::string Table::Render() const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> widths(columns, 0);
  std::vector<bool> numeric(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], DisplayWidth(rows_[r][c]));
      if (r > 0 && !IsNumber(rows_[r][c])) numeric[c] = false;
    }
  }
  size_t before_last = 0;
  for (size_t c = 0; c + 1 < columns; ++c) before_last += widths[c] + 2;
  const auto terminal = static_cast<size_t>(TerminalWidth());
  const size_t room = terminal > before_last + 8 ? terminal - before_last : 8;
  widths[columns - 1] = std::min(widths[columns - 1], room);

  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const bool last = c + 1 == columns;
      const std::string cell = Shorten(rows_[r][c], widths[c]);
      line += last && !numeric[c] ? cell : Padded(cell, widths[c], numeric[c]);
      if (!last) line += "  ";
    }
    text += r == 0 ? Styled(line, Style::kDim) : line;
    text += '\n';
  }
  return text;
}

std::string RenderBars(const std::vector<Bar>& bars) {
  double largest = 0;
  size_t label_width = 0;
  size_t note_width = 0;
  for (const Bar& bar : bars) {
    largest = std::max(largest, bar.value);
    label_width = std::max(label_width, DisplayWidth(bar.label));
    note_width = std::max(note_width, DisplayWidth(bar.note));
  }
  const int width =
      std::max(10, std::min(TerminalWidth(), 100) -
                       static_cast<int>(label_width + note_width) - 4);
  std::string text;
  for (const Bar& bar : bars) {
    text += Padded(bar.label, label_width, false) + "  " +
            Styled(Blocks(largest > 0 ? bar.value / largest : 0, width),
                   Style::kAccent) +
            " " + bar.note + "\n";
  }
  return text;
}

ProgressLine::ProgressLine(std::string label) : label_(std::move(label)) {}

ProgressLine::~ProgressLine() { Done(); }

void ProgressLine::Update(double share, std::string_view note) {
  const auto now = std::chrono::steady_clock::now();
  const bool terminal = StderrIsTerminal() && !LogIsJson();
  const auto interval = terminal ? std::chrono::milliseconds(80)
                                 : std::chrono::milliseconds(10000);
  if (last_ != std::chrono::steady_clock::time_point{} &&
      now - last_ < interval) {
    return;
  }
  last_ = now;
  if (LogIsJson()) {
    Log(LogLevel::kInfo, label_,
        {{"share", std::clamp(share, 0.0, 1.0)}, {"note", note}});
    return;
  }
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3.0f %%",
                std::clamp(share, 0.0, 1.0) * 100);
  if (!terminal) {
    Log(LogLevel::kInfo, label_ + " " + percent + " " + std::string(note));
    return;
  }
  constexpr int kBarWidth = 24;
  const std::string bar = Blocks(share, kBarWidth);
  const std::string line = label_ + " " + Padded(bar, kBarWidth, false) + " " +
                           percent + "  " + std::string(note);
  std::fprintf(stderr, "\r\033[K%s",
               Shorten(line, static_cast<size_t>(TerminalWidth()) - 1).c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressLine::Done() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
  drawn_ = false;
}

void Note(std::string_view text) { Log(LogLevel::kWarn, text); }

}  // namespace nexus::cli
