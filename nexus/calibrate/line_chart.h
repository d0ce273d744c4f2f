// The charts of nexus/base, which the plots of a study draw with.
#ifndef NEXUS_CALIBRATE_LINE_CHART_H_
#define NEXUS_CALIBRATE_LINE_CHART_H_

#include "nexus/base/line_chart.h"  // IWYU pragma: export

#endif  // NEXUS_CALIBRATE_LINE_CHART_H_
