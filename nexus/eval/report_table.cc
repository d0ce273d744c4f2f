#include "nexus/eval/report_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace nexus::eval {

std::string MarkdownTable(const TableRows& rows) {
  if (rows.empty()) return {};
  std::vector<size_t> widths(rows.front().size(), 3);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      const std::string space(widths[i] - cell.size(), ' ');
      text += i == 0 ? "| " + cell + space : " | " + space + cell;
    }
    text += " |\n";
    if (r > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i) {
      text += "|" + std::string(widths[i] + 1, '-') + (i == 0 ? "-" : ":");
    }
    text += "|\n";
  }
  return text + "\n";
}

std::string FormatNumber(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string FormatPercent(double share) {
  return FormatNumber("%.1f", 100 * share);
}

}  // namespace nexus::eval
