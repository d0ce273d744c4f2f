#include "nexus/route/scan_bench.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/route/scan_baselines.h"

namespace nexus::route {
namespace {

TEST(ScanBenchTest, EveryArmIsTimedAndTheBestTenAreFound) {
  ASSERT_OK_AND_ASSIGN(
      const auto cases,
      RunScanBench(
          {.tools = {30, 3000}, .dims = {64}, .queries = 5, .rounds = 2}));
  ASSERT_EQ(cases.size(), 2U);
  for (const ScanCase& one : cases) {
    EXPECT_EQ(one.dim, 64);
    EXPECT_GT(one.nexus_us, 0);
    EXPECT_GT(one.one_stage_us, 0);
    EXPECT_GT(one.two_stage_us, 0);
    EXPECT_GT(one.plain_us, 0);
    EXPECT_GE(one.recall_one_stage, 0.9);
    EXPECT_GE(one.recall, 0.8);
    EXPECT_GE(one.bytes, static_cast<size_t>(one.tools) * 64);
  }
}

TEST(ScanBenchTest, TheOthersOfThisBuildAreTimedAndFindTheBestToo) {
  // What a build lacks is absent, not zero.
  const std::vector<float> rows = {1, 0, 0, 1};
  const bool has_faiss = MakeFaiss(FaissKind::kFlat, rows, 2) != nullptr;
  const bool has_usearch = MakeUsearch(UsearchKind::kExact, rows, 2) != nullptr;
  ASSERT_OK_AND_ASSIGN(
      const auto cases,
      RunScanBench({.tools = {8, 2000}, .dims = {64}, .queries = 5}));
  for (const ScanCase& one : cases) {
    EXPECT_EQ(one.faiss_flat.has_value(), has_faiss);
    EXPECT_EQ(one.faiss_sq8.has_value(), has_faiss);
    EXPECT_EQ(one.usearch.has_value(), has_usearch);
    EXPECT_EQ(one.usearch_hnsw.has_value(), has_usearch);
    for (const auto& other :
         {one.faiss_flat, one.faiss_sq8, one.usearch, one.usearch_hnsw}) {
      if (!other.has_value()) continue;
      EXPECT_GT(other->us, 0);
      EXPECT_GT(other->build_ms, 0);
      EXPECT_GE(other->recall, 0.8);
      EXPECT_LE(other->recall, 1 + 1e-9);
    }
    if (has_faiss) {
      EXPECT_NEAR(one.faiss_flat->recall, 1, 1e-9);
    }
  }
}

TEST(ScanBenchTest, GivenEmbeddingsAreUsedAndEnlarged) {
  const std::vector<std::vector<float>> rows = {
      {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}};
  ASSERT_OK_AND_ASSIGN(const auto cases, RunScanBench({.tools = {3, 50},
                                                       .queries = 2,
                                                       .rounds = 1,
                                                       .top_k = 1,
                                                       .embeddings = rows}));
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].dim, 4);
  EXPECT_EQ(cases[1].tools, 50);
}

TEST(ScanBenchTest, RefusesWhatCanNotBe) {
  const auto code = [](const ScanBenchOptions& options) {
    return RunScanBench(options).status().code();
  };
  EXPECT_EQ(code({.tools = {0}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.dims = {0}}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.queries = 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.embeddings = {{1, 2}, {1}}}), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nexus::route
