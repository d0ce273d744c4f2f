// FAISS as a developer's build may have it; see scan_baselines.h.
#include "nexus/route/scan_baselines.h"

#ifdef NEXUS_BENCH_FAISS
#include <omp.h>

#include "faiss/IndexFlat.h"
#include "faiss/IndexScalarQuantizer.h"
#endif

namespace nexus::route {

#ifdef NEXUS_BENCH_FAISS
namespace {

class Faiss : public ScanBaseline {
 public:
  Faiss(std::unique_ptr<faiss::Index> index, std::span<const float> rows)
      : index_(std::move(index)) {
    const auto count = static_cast<faiss::Index::idx_t>(
        rows.size() / static_cast<size_t>(index_->d));
    omp_set_num_threads(1);
    index_->train(count, rows.data());
    index_->add(count, rows.data());
  }
  std::span<const int64_t> Search(const float* query, int top_k) override {
    scores_.resize(static_cast<size_t>(top_k));
    ids_.resize(static_cast<size_t>(top_k));
    index_->search(1, query, top_k, scores_.data(), ids_.data());
    return ids_;
  }

 private:
  std::unique_ptr<faiss::Index> index_;
  std::vector<float> scores_;
  std::vector<faiss::Index::idx_t> ids_;
};

}  // namespace

std::unique_ptr<ScanBaseline> MakeFaiss(FaissKind kind,
                                        std::span<const float> rows, int dim) {
  std::unique_ptr<faiss::Index> index;
  if (kind == FaissKind::kFlat) {
    index = std::make_unique<faiss::IndexFlatIP>(dim);
  } else {
    index = std::make_unique<faiss::IndexScalarQuantizer>(
        dim, faiss::ScalarQuantizer::QT_8bit, faiss::METRIC_INNER_PRODUCT);
  }
  return std::make_unique<Faiss>(std::move(index), rows);
}
#else
std::unique_ptr<ScanBaseline> MakeFaiss(FaissKind, std::span<const float>,
                                        int) {
  return nullptr;
}
#endif

}  // namespace nexus::route
