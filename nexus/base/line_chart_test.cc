#include "nexus/base/line_chart.h"

#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace nexus {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST(LineChartTest, DrawsEachPointAndNamesEachSeries) {
  const std::vector<ChartPanel> panels = {
      {.title = "KL < 2x",
       .log_x = true,
       .log_y = true,
       .series = {{"pure", {{128, 0.01}, {1024, 0.02}}, false},
                  {"floor", {{128, 0.0005}, {1024, 0.0005}}, true}}}};
  const std::string svg = RenderSvg("A & B", panels);
  EXPECT_EQ(Count(svg, "<circle"), 2U);
  EXPECT_THAT(svg, HasSubstr("pure"));
  EXPECT_THAT(svg, HasSubstr("stroke-dasharray"));
  EXPECT_THAT(svg, HasSubstr("A &amp; B"));
  EXPECT_THAT(svg, HasSubstr("KL &lt; 2x"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(LineChartTest, WhatALogAxisCantShowIsLeftOut) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<ChartPanel> panels = {
      {.title = "t",
       .log_x = true,
       .log_y = true,
       .series = {{"a", {{0, 1}, {1, 0}, {2, inf}, {4, 1}}, false}}}};
  const std::string svg = RenderSvg("t", panels);
  EXPECT_EQ(Count(svg, "<circle"), 1U);
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(LineChartTest, IntervalsAreBarsThroughTheirPoints) {
  ChartSeries series = {"a", {{1, 2}, {2, 3}}, false};
  series.intervals = {{1.5, 2.5}};
  ChartPanel panel;
  panel.series = {series};
  const std::string svg = RenderSvg("t", std::vector<ChartPanel>{panel});
  EXPECT_EQ(Count(svg, "stroke-opacity"), 1U);
}

// The last panel's legend ends at the picture's edge.
TEST(LineChartTest, APanelIsWideEnoughForItsLegend) {
  const auto width = [](const std::string& name) {
    const std::vector<ChartPanel> panels = {
        {.series = {{"a", {{1, 1}}, false}}},
        {.series = {{name, {{1, 2}, {2, 3}}, false}}}};
    const std::string svg = RenderSvg("t", panels);
    return std::stod(svg.substr(svg.find("width='") + 7));
  };
  EXPECT_EQ(width("b"), 920);
  EXPECT_GT(width(std::string(20, 'W')), 2 * (62 + 300 + 28 + 20 * 7));
  EXPECT_GT(width(std::string(60, 'W')), width(std::string(20, 'W')) + 500);
}

TEST(LineChartTest, AnEmptyPanelSaysSo) {
  const std::vector<ChartPanel> panels = {{.title = "t", .log_x = true}};
  EXPECT_THAT(RenderSvg("t", panels), HasSubstr("nothing measured"));
}

}  // namespace
}  // namespace nexus
