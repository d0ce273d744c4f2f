// LineChart: measured curves as an SVG picture that reads in light and dark.
#ifndef NEXUS_BASE_LINE_CHART_H_
#define NEXUS_BASE_LINE_CHART_H_

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nexus {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by x
  bool dashed = false;
  // Low and high of each point, drawn as a bar; empty: none.
  std::vector<std::pair<double, double>> intervals = {};
};

struct ChartPanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;
  bool log_y = false;
  std::vector<ChartSeries> series;
};

// Panels side by side. Points that a log axis can't show (<= 0, not finite) are
// left out; a panel without any says so.
std::string RenderSvg(const std::string& title,
                      std::span<const ChartPanel> panels);

}  // namespace nexus

#endif  // NEXUS_BASE_LINE_CHART_H_
