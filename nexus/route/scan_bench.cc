#include "nexus/route/scan_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/median.h"
#include "nexus/route/scan_baselines.h"
#include "nexus/route/slb.h"
#include "nexus/simd/int8_scan.h"

namespace nexus::route {
namespace {

// Cosine of a made-up row with the middle of its cluster, and of a repeated row
// with the one it repeats: near-twins are what makes a search hard, and real
// registries are full of them.
constexpr double kClosenessOfKin = 0.85;
// Tools a cluster: siblings on one server.
constexpr int kClusterTools = 12;

void Normalise(std::span<float> row) {
  double sum = 0;
  for (const float x : row) sum += static_cast<double>(x) * x;
  const auto scale = static_cast<float>(1 / std::sqrt(std::max(sum, 1e-30)));
  for (float& x : row) x *= scale;
}

// Unit vectors, [row, dim].
class Rows {
 public:
  Rows(size_t count, size_t dim, std::span<const std::vector<float>> given)
      : dim_(dim), data_(count * dim), random_(7) {
    const size_t clusters = (count + kClusterTools - 1) / kClusterTools;
    std::vector<float> middles(given.empty() ? clusters * dim : 0);
    for (size_t c = 0; c < middles.size() / dim; ++c) {
      Fill(std::span(middles).subspan(c * dim, dim));
    }
    for (size_t r = 0; r < count; ++r) {
      const std::span<float> row = Row(r);
      if (given.empty()) {
        Near(std::span(middles).subspan(r % clusters * dim, dim), row);
      } else if (r < given.size()) {
        std::copy(given[r].begin(), given[r].end(), row.begin());
        Normalise(row);
      } else {
        std::copy(given[r % given.size()].begin(),
                  given[r % given.size()].end(), row.begin());
        Normalise(row);
        Near(row, row);
      }
    }
  }

  std::span<float> Row(size_t r) {
    return std::span(data_).subspan(r * dim_, dim_);
  }
  std::span<const float> data() const { return data_; }

  // A question about one of them.
  std::vector<float> Query() {
    std::uniform_int_distribution<size_t> any(0, data_.size() / dim_ - 1);
    std::vector<float> query(dim_);
    Near(Row(any(random_)), query);
    return query;
  }

 private:
  void Fill(std::span<float> row) {
    std::normal_distribution<float> normal;
    for (float& x : row) x = normal(random_);
    Normalise(row);
  }
  void Near(std::span<const float> middle, std::span<float> out) {
    std::vector<float> noise(dim_);
    Fill(noise);
    const auto keep = static_cast<float>(kClosenessOfKin);
    const float away = std::sqrt(1 - keep * keep);
    for (size_t i = 0; i < dim_; ++i) {
      out[i] = keep * middle[i] + away * noise[i];
    }
    Normalise(out);
  }

  size_t dim_;
  std::vector<float> data_;
  std::mt19937 random_;
};

std::set<int> Best(std::span<const float> scores, int top_k) {
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto kept = std::min(order.size(), static_cast<size_t>(top_k));
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept),
      order.end(), [&](int a, int b) {
        return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
      });
  return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept)};
}

template <typename Hit, typename RowOf>
double Recall(const std::set<int>& truth, std::span<const Hit> hits,
              RowOf row_of) {
  const auto found =
      std::count_if(hits.begin(), hits.end(), [&](const Hit& hit) {
        return truth.contains(static_cast<int>(row_of(hit)));
      });
  return static_cast<double>(found) /
         static_cast<double>(std::max<size_t>(truth.size(), 1));
}

double Microseconds(std::chrono::nanoseconds time) {
  return 1e3 * Milliseconds(time);
}

// The reference: one byte times one byte at a time, then the best k.
void PlainSearch(const Slb& slb, std::span<const int8_t> rows,
                 std::span<const float> query, int top_k) {
  const auto dim = static_cast<size_t>(slb.dimension());
  std::vector<int8_t> quantised(dim);
  simd::QuantizeInt8Scalar(query.data(), dim, quantised.data());
  std::vector<int32_t> products(static_cast<size_t>(slb.row_count()));
  simd::Int8DotScanScalar(rows.data(), products.size(), dim, dim,
                          quantised.data(), products.data());
  const auto kept = std::min(products.size(), static_cast<size_t>(top_k));
  std::partial_sort(products.begin(),
                    products.begin() + static_cast<std::ptrdiff_t>(kept),
                    products.end(), std::greater<>());
}

struct Baseline {
  std::unique_ptr<ScanBaseline> index;
  BaselineFigures* figures;
  std::vector<double> times;
};

Result<ScanCase> RunCase(const ScanBenchOptions& options, int tools, int dim) {
  Rows rows(static_cast<size_t>(tools), static_cast<size_t>(dim),
            options.embeddings);
  Slb slb(dim);
  slb.Reserve(tools);
  std::vector<int8_t> bytes;  // the same rows for the plain loop
  for (int r = 0; r < tools; ++r) {
    slb.Append({}, rows.Row(static_cast<size_t>(r)));
    const std::span<const int8_t> row = slb.row(r);
    bytes.insert(bytes.end(), row.begin(), row.end());
  }
  ScanCase result;
  result.tools = tools;
  result.dim = dim;
  result.bytes = slb.MemoryBytes();
  std::vector<Baseline> others;
  const auto add = [&](std::optional<BaselineFigures>* out, auto make,
                       auto kind) {
    const auto begin = Clock::Monotonic().Now();
    auto index = make(kind, rows.data(), dim);
    if (index == nullptr) return;
    out->emplace().build_ms = Milliseconds(Clock::Monotonic().Now() - begin);
    others.push_back({std::move(index), &**out, {}});
  };
  add(&result.faiss_flat, MakeFaiss, FaissKind::kFlat);
  add(&result.faiss_sq8, MakeFaiss, FaissKind::kSq8);
  add(&result.usearch, MakeUsearch, UsearchKind::kExact);
  add(&result.usearch_hnsw, MakeUsearch, UsearchKind::kHnsw);

  enum { kAuto, kOne, kTwo, kPlain, kOwnArms };
  std::vector<double> times[kOwnArms];
  // Each arm finds the caches as another has left them, not always the same
  // one.
  std::vector<size_t> order(kOwnArms + others.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(static_cast<uint32_t>(5 + tools + dim));
  for (int q = 0; q < options.queries; ++q) {
    const std::vector<float> query = rows.Query();
    std::vector<float> cosines(static_cast<size_t>(tools));
    for (size_t r = 0; r < cosines.size(); ++r) {
      const std::span<const float> row = rows.Row(r);
      cosines[r] =
          std::inner_product(row.begin(), row.end(), query.begin(), 0.0F);
    }
    const std::set<int> truth = Best(cosines, options.top_k);
    Result<std::vector<SlbHit>> found[3] = {
        InternalError(""), InternalError(""), InternalError("")};
    const auto search = [&](size_t arm, SlbScan scan) {
      found[arm] = slb.Search(query, {.top_k = options.top_k, .scan = scan});
    };
    for (int round = 0; round < options.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t arm : order) {
        Baseline* other = arm < kOwnArms ? nullptr : &others[arm - kOwnArms];
        std::span<const int64_t> hits;
        const auto begin = Clock::Monotonic().Now();
        if (arm == kAuto) search(arm, SlbScan::kAuto);
        if (arm == kOne) search(arm, SlbScan::kOneStage);
        if (arm == kTwo) search(arm, SlbScan::kTwoStage);
        if (arm == kPlain) PlainSearch(slb, bytes, query, options.top_k);
        if (other != nullptr) {
          hits = other->index->Search(query.data(), options.top_k);
        }
        const double us = Microseconds(Clock::Monotonic().Now() - begin);
        (other != nullptr ? other->times : times[arm]).push_back(us);
        if (other == nullptr || round > 0) continue;
        other->figures->recall +=
            Recall(truth, hits, std::identity()) / options.queries;
      }
    }
    for (const auto& hits : found) NEXUS_RETURN_IF_ERROR(hits.status());
    const auto recall = [&](size_t arm) {
      return Recall(truth, std::span<const SlbHit>(*found[arm]),
                    [](const SlbHit& hit) { return hit.row; }) /
             options.queries;
    };
    result.recall += recall(kAuto);
    result.recall_one_stage += recall(kOne);
  }
  result.nexus_us = Median(times[kAuto]);
  result.one_stage_us = Median(times[kOne]);
  result.two_stage_us = Median(times[kTwo]);
  result.plain_us = Median(times[kPlain]);
  for (Baseline& other : others) other.figures->us = Median(other.times);
  return result;
}

}  // namespace

Result<std::vector<ScanCase>> RunScanBench(const ScanBenchOptions& options) {
  std::vector<int> dims = options.dims;
  if (!options.embeddings.empty()) {
    const size_t dim = options.embeddings.front().size();
    for (const std::vector<float>& row : options.embeddings) {
      if (row.size() != dim || dim == 0) {
        return InvalidArgumentError("scan: embeddings of " +
                                    std::to_string(dim) + " and " +
                                    std::to_string(row.size()) + " numbers");
      }
    }
    dims = {static_cast<int>(dim)};
  }
  if (options.queries < 1 || options.rounds < 1 || options.top_k < 1) {
    return InvalidArgumentError("scan: queries, rounds and k must be above 0");
  }
  std::vector<ScanCase> cases;
  const double total = static_cast<double>(dims.size() * options.tools.size());
  for (const int dim : dims) {
    for (const int tools : options.tools) {
      if (tools < 1 || dim < 1) {
        return InvalidArgumentError("scan: " + std::to_string(tools) +
                                    " tools of " + std::to_string(dim) +
                                    " dimensions");
      }
      if (options.progress) {
        options.progress(static_cast<double>(cases.size()) / total,
                         std::to_string(tools) + " x " + std::to_string(dim));
      }
      NEXUS_ASSIGN_OR_RETURN(ScanCase one, RunCase(options, tools, dim));
      cases.push_back(one);
    }
  }
  return cases;
}

}  // namespace nexus::route
