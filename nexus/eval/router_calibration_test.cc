// Calibration over a tiny registry, where it is known what must be learnt.
#include "nexus/eval/router_calibration.h"

#include <atomic>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/route/testing/fake_embedder.h"
#include "nexus/route/testing/sample_tools.h"

namespace nexus::eval {
namespace {

// Twenty tools with a word of their own each, and one in common.
CalibrationSet Set(bool with_out_of_scope) {
  CalibrationSet set;
  set.name = "letters";
  for (int i = 0; i < 20; ++i) {
    const std::string word =
        "word" + std::string(1, static_cast<char>('a' + i));
    set.tools.push_back(route::Tool("tool_" + word, word + " thing", "s"));
    LabelledQuery query;
    query.id = word;
    query.text = word + " thing";
    query.gold = {"tool_" + word};
    set.queries.push_back(query);
  }
  if (with_out_of_scope) {
    for (int i = 0; i < 5; ++i) {
      LabelledQuery query;
      query.id = "out" + std::to_string(i);
      query.text = "zebra thing";
      set.queries.push_back(query);
    }
  }
  return set;
}

TEST(CalibrateRouterTest, SeparatesTheRightFromTheNearMiss) {
  route::FakeEmbedder encoder;
  RouterCalibrationOptions options;
  options.pool_sizes = {5, 10, 100};  // the last is beyond the registry
  int done = 0;
  options.progress = [&](int d, int) { done = d; };
  ASSERT_OK_AND_ASSIGN(const RouterCalibration fit,
                       CalibrateRouter({Set(true)}, &encoder, options));
  EXPECT_EQ(done, 1);
  EXPECT_EQ(fit.sets, 1);
  EXPECT_EQ(fit.queries, 25);
  // Three pools a query, and its near misses.
  EXPECT_EQ(fit.trials, 3 * (20 + 20 + 5));
  EXPECT_EQ(fit.curve.size(), 21U);
  EXPECT_DOUBLE_EQ(fit.top1, 1);
  EXPECT_GT(fit.auroc, 0.99);
  EXPECT_DOUBLE_EQ(fit.auto_share, 1);
  EXPECT_DOUBLE_EQ(fit.auto_precision, 1);
  EXPECT_DOUBLE_EQ(fit.false_route, 0);
  EXPECT_GE(fit.head.route_at, fit.head.abstain_below);
}

TEST(CalibrateRouterTest, IsTheSameEachTime) {
  route::FakeEmbedder encoder;
  ASSERT_OK_AND_ASSIGN(const RouterCalibration a,
                       CalibrateRouter({Set(true), Set(false)}, &encoder, {}));
  ASSERT_OK_AND_ASSIGN(const RouterCalibration b,
                       CalibrateRouter({Set(true), Set(false)}, &encoder, {}));
  EXPECT_EQ(a.head.weights, b.head.weights);
  EXPECT_EQ(a.head.route_at, b.head.route_at);
}

TEST(CalibrateRouterTest, SaysWhenThereIsNothingToLearnFrom) {
  route::FakeEmbedder encoder;
  EXPECT_EQ(CalibrateRouter({}, &encoder).status().code(),
            StatusCode::kInvalidArgument);
  CalibrationSet unknown = Set(false);
  for (LabelledQuery& query : unknown.queries) query.gold = {"nobody"};
  EXPECT_EQ(CalibrateRouter({unknown}, &encoder).status().code(),
            StatusCode::kInvalidArgument);
  const std::atomic<bool> cancel{true};
  RouterCalibrationOptions options;
  options.cancel = &cancel;
  EXPECT_EQ(CalibrateRouter({Set(false)}, &encoder, options).status().code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace nexus::eval
