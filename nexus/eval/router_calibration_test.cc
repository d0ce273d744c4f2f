// Calibration over a tiny registry, where it is known what must be learnt.
#include "nexus/eval/router_calibration.h"

#include <algorithm>
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
  EXPECT_DOUBLE_EQ(fit.figures.top1, 1);
  EXPECT_GT(fit.figures.auroc, 0.99);
  EXPECT_DOUBLE_EQ(fit.figures.auto_share, 1);
  EXPECT_DOUBLE_EQ(fit.figures.auto_precision, 1);
  EXPECT_DOUBLE_EQ(fit.figures.false_route, 0);
  EXPECT_GE(fit.head.route_at, fit.head.abstain_below);
}

// Knows the right tool by its word, and that "zebra" is nobody's.
class WordReranker : public llm::Reranker {
 public:
  Result<std::vector<float>> Score(
      std::string_view query, std::span<const std::string> documents) override {
    if (!error.ok()) return error;
    largest = std::max(largest, documents.size());
    const std::string word(query.substr(0, query.find(' ')));
    std::vector<float> scores;
    for (const std::string& document : documents) {
      scores.push_back(document.find(word) != std::string::npos ? 4.0F : -4.0F);
    }
    return scores;
  }
  std::string name() const override { return "words"; }
  std::string fingerprint() const override { return "words"; }

  Status error;
  size_t largest = 0;
};

TEST(CalibrateRouterTest, TheSecondLookReadsWhatTheFirstDidNotRoute) {
  route::FakeEmbedder encoder;
  WordReranker reranker;
  RouterCalibrationOptions options;
  options.pool_sizes = {5, 10};
  options.reranker = &reranker;
  options.rerank_depth = 4;
  // Out of reach of the first look on purpose: nothing is precise enough.
  options.precision = 1.5;
  ASSERT_OK_AND_ASSIGN(const RouterCalibration none,
                       CalibrateRouter({Set(true)}, &encoder, options));
  ASSERT_TRUE(none.pairs.has_value());
  EXPECT_EQ(none.pairs->read, none.trials);
  EXPECT_EQ(none.figures.auto_share, 0);
  EXPECT_EQ(none.head.abstain_below, 0);
  EXPECT_EQ(reranker.largest, 4U);
  EXPECT_DOUBLE_EQ(none.pairs->figures.top1, 1);
  EXPECT_GT(none.pairs->figures.auroc, 0.99);

  options.precision = 0.98;
  ASSERT_OK_AND_ASSIGN(const RouterCalibration fit,
                       CalibrateRouter({Set(true)}, &encoder, options));
  // The first look routes all that is in scope; the second adds nothing, and
  // its figures say what both do together.
  EXPECT_DOUBLE_EQ(fit.figures.auto_share, 1);
  EXPECT_LT(fit.pairs->read, fit.trials);
  EXPECT_DOUBLE_EQ(fit.pairs->figures.auto_share, 1);
  EXPECT_DOUBLE_EQ(fit.pairs->figures.false_route, 0);

  reranker.error = UnavailableError("gone");
  EXPECT_EQ(CalibrateRouter({Set(true)}, &encoder, options).status().code(),
            StatusCode::kUnavailable);
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

TEST(CalibrateRouterTest, SaysWhatOtherPrecisionsWouldReach) {
  route::FakeEmbedder encoder;
  // Every fifth label is wrong: 98 % is out of reach, 60 % isn't.
  CalibrationSet set = Set(true);
  for (size_t i = 0; i < 20; i += 5) {
    set.queries[i].gold = set.queries[i + 1].gold;
  }
  RouterCalibrationOptions options;
  options.pool_sizes = {5, 10};
  options.precision = 0.98;
  ASSERT_OK_AND_ASSIGN(const RouterCalibration none,
                       CalibrateRouter({set}, &encoder, options));
  EXPECT_EQ(none.last_figures().auto_share, 0);
  EXPECT_EQ(none.head.route_at, 1);
  ASSERT_EQ(none.reach.size(), 5U);
  EXPECT_EQ(none.reach.front().precision, 0.98);
  for (size_t i = 1; i < none.reach.size(); ++i) {
    EXPECT_GE(none.reach[i].figures.auto_share,
              none.reach[i - 1].figures.auto_share);
    EXPECT_LE(none.reach[i].figures.false_route, options.false_route);
  }
  // A user who wants less has that line too, and routes something.
  options.precision = 0.6;
  options.false_route = 1;
  ASSERT_OK_AND_ASSIGN(const RouterCalibration some,
                       CalibrateRouter({set}, &encoder, options));
  ASSERT_EQ(some.reach.size(), 6U);
  EXPECT_EQ(some.reach.back().precision, 0.6);
  EXPECT_EQ(some.reach.back().figures.auto_share, some.figures.auto_share);
  EXPECT_EQ(some.reach.back().route_at, some.head.route_at);
  EXPECT_GT(some.figures.auto_share, 0.5);
  EXPECT_GE(some.figures.auto_precision, 0.6);
  // More false routing allowed, no less routed.
  options.false_route = 0;
  ASSERT_OK_AND_ASSIGN(const RouterCalibration strict,
                       CalibrateRouter({set}, &encoder, options));
  EXPECT_LE(strict.figures.auto_share, some.figures.auto_share);
  EXPECT_EQ(strict.figures.false_route, 0);
}

TEST(CalibrateRouterTest, MeasuresThePapersMarginAndTheBestOne) {
  route::FakeEmbedder encoder;
  RouterCalibrationOptions options;
  options.pool_sizes = {5, 10};
  ASSERT_OK_AND_ASSIGN(const RouterCalibration fit,
                       CalibrateRouter({Set(true)}, &encoder, options));
  EXPECT_FLOAT_EQ(fit.paper_margin.tau, 0.0136F);
  EXPECT_DOUBLE_EQ(fit.paper_margin.figures.top1, 1);
  EXPECT_GT(fit.paper_margin.figures.auto_share, 0.8);
  EXPECT_GT(fit.best_margin.figures.auto_share, 0);
  EXPECT_GE(fit.best_margin.figures.auto_precision, options.precision);
  EXPECT_LE(fit.best_margin.figures.false_route, options.false_route);
}

TEST(CalibrateRouterTest, RefusesASingleClass) {
  route::FakeEmbedder encoder;
  const auto message = [&](CalibrationSet set) {
    const Status status = CalibrateRouter({set}, &encoder).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  CalibrationSet outside = Set(true);
  outside.queries.erase(outside.queries.begin(), outside.queries.begin() + 20);
  EXPECT_NE(message(outside).find("every query is out of scope"),
            std::string::npos);
  // One tool: without it nothing is left to ask about.
  CalibrationSet inside = Set(false);
  inside.tools.resize(1);
  inside.queries.resize(1);
  EXPECT_NE(message(inside).find("nothing is out of scope"), std::string::npos);
  CalibrationSet wrong = Set(true);
  for (LabelledQuery& query : wrong.queries) {
    if (!query.gold.empty()) query.gold = {"tool_wordt"};
  }
  wrong.queries.erase(wrong.queries.begin() + 19);
  EXPECT_NE(message(wrong).find("right for none"), std::string::npos);
  // Near misses make both classes of queries that are all in scope.
  EXPECT_OK(CalibrateRouter({Set(false)}, &encoder).status());
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
