// USearch as a developer's build may have it; see scan_baselines.h.
#include "nexus/route/scan_baselines.h"

#ifdef NEXUS_BENCH_USEARCH
#include <algorithm>

#include "usearch/index_dense.hpp"

#include "nexus/base/check.h"
#endif

namespace nexus::route {

#ifdef NEXUS_BENCH_USEARCH
namespace {

namespace us = unum::usearch;

us::metric_punned_t InnerProduct(int dim) {
  return {static_cast<size_t>(dim), us::metric_kind_t::ip_k,
          us::scalar_kind_t::i8_k};
}

class UsearchExact : public ScanBaseline {
 public:
  UsearchExact(std::span<const float> rows, int dim)
      : dim_(static_cast<size_t>(dim)),
        rows_(rows.size()),
        query_(dim_),
        metric_(InnerProduct(dim)) {
    for (size_t first = 0; first < rows.size(); first += dim_) {
      Quantise(rows.data() + first, rows_.data() + first);
    }
  }

  std::span<const int64_t> Search(const float* query, int top_k) override {
    Quantise(query, query_.data());
    const size_t count = rows_.size() / dim_;
    const auto found =
        search_(reinterpret_cast<const us::byte_t*>(rows_.data()), count, dim_,
                reinterpret_cast<const us::byte_t*>(query_.data()), 1, dim_,
                std::min(count, static_cast<size_t>(top_k)), metric_);
    NEXUS_CHECK(found);  // it had no memory
    ids_.clear();
    for (size_t i = 0; i < found.dimensions(); ++i) {
      ids_.push_back(found.at(0)[i].offset);
    }
    return ids_;
  }

 private:
  void Quantise(const float* in, int8_t* out) const {
    us::cast_gt<us::f32_t, us::i8_t>::try_(
        reinterpret_cast<const us::byte_t*>(in), dim_,
        reinterpret_cast<us::byte_t*>(out));
  }

  size_t dim_;
  std::vector<int8_t> rows_;
  std::vector<int8_t> query_;
  us::metric_punned_t metric_;
  us::exact_search_t search_;
  std::vector<int64_t> ids_;
};

class UsearchHnsw : public ScanBaseline {
 public:
  UsearchHnsw(std::span<const float> rows, int dim)
      : index_(us::index_dense_t::make(InnerProduct(dim)).index) {
    const auto columns = static_cast<size_t>(dim);
    const size_t count = rows.size() / columns;
    NEXUS_CHECK(index_.try_reserve(us::index_limits_t(count, 1)));
    for (size_t r = 0; r < count; ++r) {
      auto added = index_.add(r, rows.data() + r * columns);
      NEXUS_CHECK(!added.error);
    }
  }

  std::span<const int64_t> Search(const float* query, int top_k) override {
    const auto found = index_.search(query, static_cast<size_t>(top_k));
    ids_.clear();
    for (size_t i = 0; i < found.size(); ++i) {
      ids_.push_back(static_cast<int64_t>(found[i].member.key));
    }
    return ids_;
  }

 private:
  us::index_dense_t index_;
  std::vector<int64_t> ids_;
};

}  // namespace

std::unique_ptr<ScanBaseline> MakeUsearch(UsearchKind kind,
                                          std::span<const float> rows,
                                          int dim) {
  if (kind == UsearchKind::kExact) {
    return std::make_unique<UsearchExact>(rows, dim);
  }
  return std::make_unique<UsearchHnsw>(rows, dim);
}
#else
std::unique_ptr<ScanBaseline> MakeUsearch(UsearchKind, std::span<const float>,
                                          int) {
  return nullptr;
}
#endif

}  // namespace nexus::route
