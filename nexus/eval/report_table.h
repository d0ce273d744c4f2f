// Tables of reports: rows of cells, the first one the header.
#ifndef NEXUS_EVAL_REPORT_TABLE_H_
#define NEXUS_EVAL_REPORT_TABLE_H_

#include <string>
#include <vector>

namespace nexus::eval {

using TableRows = std::vector<std::vector<std::string>>;

// As Markdown, padded to be read as it is, with a blank line behind it. The
// first column is aligned to the left, the others to the right. Rows must be as
// long as the first.
std::string MarkdownTable(const TableRows& rows);

// `format` takes one double, "%.1f".
std::string FormatNumber(const char* format, double value);
// "92.3" of 0.923.
std::string FormatPercent(double share);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_REPORT_TABLE_H_
