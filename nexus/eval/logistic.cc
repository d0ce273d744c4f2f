#include "nexus/eval/logistic.h"

#include <algorithm>
#include <cmath>

namespace nexus::eval {
namespace {

struct Scale {
  double mean = 0;
  double spread = 0;  // 0: the column never changes
};

Scale ScaleOf(const LogisticData& data, size_t column) {
  double total = 0, sum = 0, squares = 0;
  for (size_t r = 0; r < data.yes.size(); ++r) {
    const double x = static_cast<double>(data.rows[r * data.columns + column]);
    total += data.weight[r];
    sum += data.weight[r] * x;
    squares += data.weight[r] * x * x;
  }
  if (total <= 0) return {};
  Scale scale;
  scale.mean = sum / total;
  const double variance = squares / total - scale.mean * scale.mean;
  if (variance > 1e-12) scale.spread = std::sqrt(variance);
  return scale;
}

// Solves a * x = b for a symmetric positive definite `a` [n][n] by Cholesky;
// both are overwritten, b with x.
void SolveInPlace(std::vector<double>* a, std::vector<double>* b) {
  const size_t n = b->size();
  std::vector<double>& m = *a;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = m[i * n + j];
      for (size_t k = 0; k < j; ++k) sum -= m[i * n + k] * m[j * n + k];
      m[i * n + j] =
          i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / m[j * n + j];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) (*b)[i] -= m[i * n + k] * (*b)[k];
    (*b)[i] /= m[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) (*b)[i] -= m[k * n + i] * (*b)[k];
    (*b)[i] /= m[i * n + i];
  }
}

}  // namespace

LogisticFit FitLogistic(const LogisticData& data, double ridge) {
  const size_t rows = data.yes.size();
  const size_t n = data.columns + 1;  // the last is the bias
  std::vector<Scale> scales;
  for (size_t c = 0; c < data.columns; ++c) scales.push_back(ScaleOf(data, c));
  std::vector<double> beta(n, 0.0);
  std::vector<double> x(n, 1.0);
  constexpr int kMaxSteps = 50;
  for (int step = 0; step < kMaxSteps; ++step) {
    std::vector<double> gradient(n, 0.0);
    std::vector<double> hessian(n * n, 0.0);
    for (size_t r = 0; r < rows; ++r) {
      double sum = beta[n - 1];
      for (size_t c = 0; c < data.columns; ++c) {
        const double value =
            static_cast<double>(data.rows[r * data.columns + c]);
        x[c] = scales[c].spread > 0
                   ? (value - scales[c].mean) / scales[c].spread
                   : 0.0;
        sum += beta[c] * x[c];
      }
      const double p = 1 / (1 + std::exp(-sum));
      const double error = (data.yes[r] != 0 ? 1.0 : 0.0) - p;
      const double curvature = p * (1 - p);
      for (size_t i = 0; i < n; ++i) {
        gradient[i] += data.weight[r] * error * x[i];
        for (size_t j = 0; j <= i; ++j) {
          hessian[i * n + j] += data.weight[r] * curvature * x[i] * x[j];
        }
      }
    }
    for (size_t i = 0; i < n; ++i) {
      // The bias is held too, or rows that all say yes would push it away.
      gradient[i] -= ridge * beta[i];
      hessian[i * n + i] += ridge;
    }
    SolveInPlace(&hessian, &gradient);
    double largest = 0;
    for (size_t i = 0; i < n; ++i) {
      // Newton oversteps where the curve is flat.
      const double change = std::clamp(gradient[i], -2.0, 2.0);
      beta[i] += change;
      largest = std::max(largest, std::abs(change));
    }
    if (largest < 1e-9) break;
  }
  LogisticFit fit;
  fit.weights.assign(data.columns, 0.0);
  fit.bias = beta[n - 1];
  for (size_t c = 0; c < data.columns; ++c) {
    if (scales[c].spread <= 0) continue;
    fit.weights[c] = beta[c] / scales[c].spread;
    fit.bias -= fit.weights[c] * scales[c].mean;
  }
  return fit;
}

}  // namespace nexus::eval
