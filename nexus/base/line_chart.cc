#include "nexus/base/line_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string_view>

namespace nexus {
namespace {

constexpr double kLeastPanelWidth = 460;
constexpr double kPlotWidth = 300;
constexpr double kPlotHeight = 230;
constexpr double kLeft = 62;
constexpr double kTop = 66;
constexpr double kHeight = 360;

// Distinct for the colour-blind too (Okabe and Ito's set).
constexpr std::array<std::string_view, 8> kColours = {
    "#0072b2", "#d55e00", "#009e73", "#cc79a7",
    "#e69f00", "#56b4e9", "#7f7f7f", "#a6761d"};

std::string Escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string TickText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

struct Axis {
  bool log = false;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  bool Shows(double value) const {
    return std::isfinite(value) && (!log || value > 0);
  }
  void Take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double Scaled(double value) const { return log ? std::log10(value) : value; }
  // 0 at the low end, 1 at the high end.
  double Place(double value) const {
    const double span = Scaled(high) - Scaled(low);
    return span > 0 ? (Scaled(value) - Scaled(low)) / span : 0.5;
  }
  void Widen() {
    if (log) {
      low /= 1.3;
      high *= 1.3;
    } else {
      low = std::min(low, 0.0);
      high += high == low ? 1 : (high - low) * 0.05;
    }
  }
  std::vector<double> Ticks() const {
    std::vector<double> ticks;
    if (log) {
      for (int decade = static_cast<int>(std::floor(std::log10(low)));
           decade <= static_cast<int>(std::ceil(std::log10(high))); ++decade) {
        for (const double step : {1.0, 2.0, 5.0}) {
          const double tick = step * std::pow(10.0, decade);
          if (tick >= low && tick <= high) ticks.push_back(tick);
        }
      }
      return ticks;
    }
    const double raw = (high - low) / 5;
    const double magnitude = std::pow(10.0, std::floor(std::log10(raw)));
    double step = magnitude;
    for (const double factor : {2.0, 5.0, 10.0}) {
      if (step < raw) step = factor * magnitude;
    }
    for (double tick = std::ceil(low / step) * step; tick <= high;
         tick += step) {
      ticks.push_back(tick);
    }
    return ticks;
  }
};

class Drawing {
 public:
  void Line(double x1, double y1, double x2, double y2, const char* style) {
    out_ += "<line x1='" + Number(x1) + "' y1='" + Number(y1) + "' x2='" +
            Number(x2) + "' y2='" + Number(y2) + "' class='" + style + "'/>\n";
  }
  void Text(double x, double y, const std::string& text, const char* style) {
    out_ += "<text x='" + Number(x) + "' y='" + Number(y) + "' class='" +
            style + "'>" + Escape(text) + "</text>\n";
  }
  void Raw(const std::string& text) { out_ += text; }
  const std::string& text() const { return out_; }

 private:
  std::string out_;
};

void DrawPanel(const ChartPanel& panel, double left, Drawing* drawing) {
  Axis x = {.log = panel.log_x};
  Axis y = {.log = panel.log_y};
  for (const ChartSeries& series : panel.series) {
    for (const auto& [px, py] : series.points) {
      if (!x.Shows(px) || !y.Shows(py)) continue;
      x.Take(px);
      y.Take(py);
    }
    for (const auto& [low, high] : series.intervals) {
      if (y.Shows(low)) y.Take(low);
      if (y.Shows(high)) y.Take(high);
    }
  }
  drawing->Text(left, kTop - 14, panel.title, "b");
  if (x.low > x.high) {
    drawing->Text(left, kTop + 20, "nothing measured", "t");
    return;
  }
  x.Widen();
  y.Widen();
  const auto place_x = [&](double value) {
    return left + kPlotWidth * x.Place(value);
  };
  const auto place_y = [&](double value) {
    return kTop + kPlotHeight * (1 - y.Place(value));
  };
  for (const double tick : x.Ticks()) {
    drawing->Line(place_x(tick), kTop, place_x(tick), kTop + kPlotHeight, "g");
    drawing->Text(place_x(tick), kTop + kPlotHeight + 15, TickText(tick), "m");
  }
  for (const double tick : y.Ticks()) {
    drawing->Line(left, place_y(tick), left + kPlotWidth, place_y(tick), "g");
    drawing->Text(left - 6, place_y(tick) + 4, TickText(tick), "e");
  }
  drawing->Text(left + kPlotWidth / 2, kTop + kPlotHeight + 33, panel.x_label,
                "m");
  drawing->Text(left - 50, kTop - 32, panel.y_label, "t");
  double legend = kTop + 8;
  for (size_t i = 0; i < panel.series.size(); ++i) {
    const ChartSeries& series = panel.series[i];
    const std::string colour(kColours[i % kColours.size()]);
    const std::string stroke = "stroke='" + colour + "'" +
                               (series.dashed ? " stroke-dasharray='5 4'" : "");
    std::string path;
    std::string dots;
    for (size_t p = 0; p < series.points.size(); ++p) {
      const auto& [px, py] = series.points[p];
      if (!x.Shows(px) || !y.Shows(py)) continue;
      if (p < series.intervals.size() && y.Shows(series.intervals[p].first) &&
          y.Shows(series.intervals[p].second)) {
        dots += "<path d='M" + Number(place_x(px)) + " " +
                Number(place_y(series.intervals[p].first)) + "V" +
                Number(place_y(series.intervals[p].second)) +
                "' stroke-opacity='0.5' " + stroke + "/>\n";
      }
      path += (path.empty() ? "M" : "L") + Number(place_x(px)) + " " +
              Number(place_y(py));
      if (!series.dashed) {
        dots += "<circle cx='" + Number(place_x(px)) + "' cy='" +
                Number(place_y(py)) + "' r='3' fill='" + colour + "'/>\n";
      }
    }
    if (path.empty()) continue;
    drawing->Raw("<path d='" + path + "' fill='none' stroke-width='1.8' " +
                 stroke + "/>\n" + dots);
    const double at = left + kPlotWidth + 10;
    drawing->Raw("<path d='M" + Number(at) + " " + Number(legend - 4) +
                 "h14' " + "fill='none' stroke-width='2.5' " + stroke + "/>\n");
    drawing->Text(at + 18, legend, series.name, "t");
    legend += 16;
  }
}

// All panels are as wide as the longest name of a series wants.
double PanelWidth(std::span<const ChartPanel> panels) {
  // Wide letters of an 11 pixel font, so that no browser cuts them.
  constexpr double kLetter = 7;
  constexpr double kBeforeName = 28;
  constexpr double kBehindName = 12;
  size_t longest = 0;
  for (const ChartPanel& panel : panels) {
    for (const ChartSeries& series : panel.series) {
      longest = std::max(longest, series.name.size());
    }
  }
  return std::max(kLeastPanelWidth, kLeft + kPlotWidth + kBeforeName +
                                        kLetter * static_cast<double>(longest) +
                                        kBehindName);
}

}  // namespace

std::string RenderSvg(const std::string& title,
                      std::span<const ChartPanel> panels) {
  const double panel_width = PanelWidth(panels);
  const double width = panel_width * static_cast<double>(panels.size());
  Drawing drawing;
  drawing.Raw("<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 " +
              Number(width) + " " + Number(kHeight) + "' width='" +
              Number(width) + "' height='" + Number(kHeight) + "'>\n");
  drawing.Raw(
      "<style>text{font:11px sans-serif;fill:#222}.b{font-weight:bold}"
      ".m{text-anchor:middle}.e{text-anchor:end}.g{stroke:#ddd}"
      ".h{font:bold 13px sans-serif}.p{fill:#fff}"
      "@media(prefers-color-scheme:dark){text{fill:#ddd}.g{stroke:#444}"
      ".p{fill:#1b1b1b}}</style>\n");
  drawing.Raw("<rect class='p' width='100%' height='100%'/>\n");
  drawing.Text(12, 20, title, "h");
  for (size_t i = 0; i < panels.size(); ++i) {
    DrawPanel(panels[i], panel_width * static_cast<double>(i) + kLeft,
              &drawing);
  }
  drawing.Raw("</svg>\n");
  return drawing.text();
}

}  // namespace nexus
