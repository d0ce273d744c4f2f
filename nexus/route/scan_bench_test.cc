#include "nexus/route/scan_bench.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

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
