// Logistic regression: the chance of "yes" out of a few numbers, by maximum
// likelihood with a small ridge, Newton's method. For tens of numbers at most:
// a step solves a dense system.
#ifndef NEXUS_EVAL_LOGISTIC_H_
#define NEXUS_EVAL_LOGISTIC_H_

#include <span>
#include <vector>

namespace nexus::eval {

struct LogisticData {
  size_t columns = 0;
  std::vector<float> rows;     // [row][column]
  std::vector<char> yes;       // [row]
  std::vector<double> weight;  // [row], how much the row counts
};

struct LogisticFit {
  std::vector<double> weights;  // [column]
  double bias = 0;
};

// `ridge` counts against weights of standardised columns, in units of the rows'
// weight. A column that never changes gets weight 0. Finite whatever the rows
// say, also when all of them say yes.
LogisticFit FitLogistic(const LogisticData& data, double ridge);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_LOGISTIC_H_
