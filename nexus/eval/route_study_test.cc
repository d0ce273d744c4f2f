// Whole studies over a tiny registry and a fake encoder, figures by hand.
#include "nexus/eval/route_study.h"

#include <cmath>

#include "gmock/gmock.h"

#include "nexus/base/json.h"
#include "nexus/base/lines.h"
#include "nexus/base/test_util.h"
#include "nexus/eval/decision_lines.h"
#include "nexus/eval/memo_embedder.h"
#include "nexus/eval/route_report.h"
#include "nexus/eval/route_summary.h"
#include "nexus/route/testing/fake_embedder.h"
#include "nexus/route/testing/sample_tools.h"

namespace nexus::eval {
namespace {

using route::Tool;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kNexus = static_cast<size_t>(Ranking::kNexus);
constexpr auto kBm25 = static_cast<size_t>(Ranking::kBm25);

std::vector<schema::ToolSchema> Tools() {
  return {Tool("get_weather", "rain sun wind", "a"),
          Tool("send_mail", "letter recipient post", "b"),
          Tool("delete_mail", "letter trash erase", "b"),
          Tool("get_song", "music tune", "c")};
}

LabelledQuery Query(std::string text, std::vector<std::string> gold) {
  LabelledQuery query;
  query.id = text;
  query.text = std::move(text);
  query.gold = std::move(gold);
  return query;
}

// Two right, one wrong ("letter trash" is labelled as sending), one that needs
// two tools, one out of scope without any word of the registry.
std::vector<LabelledQuery> Queries() {
  return {Query("rain wind", {"get_weather"}),
          Query("music tune", {"get_song"}),
          Query("letter trash erase", {"send_mail"}),
          Query("rain music", {"get_weather", "get_song"}), Query("zebra", {})};
}

TEST(RouteStudyTest, ByWordsTheFiguresAreExact) {
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       RunRouteStudy(Tools(), Queries(), {}, {}));
  ASSERT_EQ(study.points.size(), 1U);
  const RouteSummary summary = Summarize(study, study.points[0]);
  EXPECT_EQ(summary.size, 4);
  EXPECT_EQ(summary.queries, 4);
  EXPECT_DOUBLE_EQ(summary.rankings[kNexus].top1.value, 0.75);
  EXPECT_DOUBLE_EQ(summary.rankings[kBm25].top1.value, 0.75);
  EXPECT_DOUBLE_EQ(summary.rankings[kNexus].recall_at_5.value, 1);
  // "rain music" is a tie of two tools and isn't routed.
  EXPECT_DOUBLE_EQ(summary.auto_share.value, 0.75);
  EXPECT_DOUBLE_EQ(summary.auto_precision.value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(summary.reranked_share.value, 0.25);
  EXPECT_DOUBLE_EQ(summary.abstain_share.value, 0);
  EXPECT_EQ(summary.false_route.queries, 1);
  EXPECT_DOUBLE_EQ(summary.false_route.value, 0);
  EXPECT_EQ(summary.several_recall.queries, 1);
  EXPECT_DOUBLE_EQ(summary.complete_at_5.value, 1);
  EXPECT_DOUBLE_EQ(summary.several_routed.value, 0);
  // Weather, song and the pair only read; no write tool was taken for them.
  EXPECT_EQ(summary.write_first.queries, 3);
  EXPECT_DOUBLE_EQ(summary.write_first.value, 0);
  EXPECT_EQ(summary.rules.at("bm25-margin").trials, 4);
  EXPECT_EQ(summary.rules.at("bm25-margin").right, 2);
}

TEST(RouteStudyTest, RoutingOneToolWhereSeveralAreNeededIsAnError) {
  ASSERT_OK_AND_ASSIGN(
      const RouteStudy study,
      RunRouteStudy(Tools(),
                    {Query("rain sun wind music", {"get_weather", "get_song"})},
                    {}, {}));
  const RouteSummary summary = Summarize(study, study.points[0]);
  EXPECT_DOUBLE_EQ(summary.rankings[kNexus].top1.value, 1);
  EXPECT_DOUBLE_EQ(summary.auto_share.value, 1);
  EXPECT_DOUBLE_EQ(summary.auto_precision.value, 0);
  EXPECT_DOUBLE_EQ(summary.several_routed.value, 1);
  EXPECT_EQ(ListMisses(study, 5).at(0).kind, "several needed, one routed");
}

TEST(RouteStudyTest, AWriteToolForAReadRequestIsCountedApart) {
  ASSERT_OK_AND_ASSIGN(
      const RouteStudy study,
      RunRouteStudy(Tools(), {Query("letter trash erase", {"get_song"})}, {},
                    {}));
  const RouteSummary summary = Summarize(study, study.points[0]);
  EXPECT_DOUBLE_EQ(summary.write_first.value, 1);
  EXPECT_DOUBLE_EQ(summary.write_routed.value, 1);
}

TEST(RouteStudyTest, ANearMissIsTheQueryWithoutItsTool) {
  RouteStudyOptions options;
  options.near_miss = true;
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       RunRouteStudy(Tools(), Queries(), {}, options));
  const RouteSummary summary = Summarize(study, study.points[0]);
  // Three single ones; "letter trash erase" without send_mail still goes to
  // delete_mail, the others match nothing.
  EXPECT_EQ(summary.false_route_near_miss.queries, 3);
  EXPECT_DOUBLE_EQ(summary.false_route_near_miss.value, 1.0 / 3);
  EXPECT_EQ(summary.false_route.queries, 4);
  EXPECT_DOUBLE_EQ(summary.false_route.value, 0.25);
  ASSERT_EQ(summary.signals.size(), 2U);
  EXPECT_GT(summary.signals[1].auroc, 0.5);
  // 0.85 * 0.75 * 2/3 of what is routed: 0.85 * 0.75 + 0.15 * 0.25.
  EXPECT_NEAR(summary.traffic_precision, 0.425 / 0.675, 1e-12);
}

TEST(RouteStudyTest, ALabelledTwinIsAHitAndNoNearMiss) {
  RouteStudyOptions options;
  options.near_miss = true;
  options.twins = {{"b/send_mail", "mail"}, {"b/delete_mail", "mail"}};
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       RunRouteStudy(Tools(), Queries(), {}, options));
  const RouteSummary summary = Summarize(study, study.points[0]);
  EXPECT_DOUBLE_EQ(summary.rankings[kNexus].top1.value, 1);
  EXPECT_DOUBLE_EQ(summary.false_route_near_miss.value, 0);
}

TEST(RouteStudyTest, EveryDecisionIsALine) {
  RouteStudyOptions options;
  options.near_miss = true;
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       RunRouteStudy(Tools(), Queries(), {}, options));
  std::vector<Json> rows;
  EXPECT_OK(ForEachLine(
      DecisionLines(study), [&](std::string_view line, size_t) -> Status {
        NEXUS_ASSIGN_OR_RETURN(Json row, ParseJson(line, "decisions"));
        rows.push_back(std::move(row));
        return Status::Ok();
      }));
  ASSERT_EQ(rows.size(), study.points[0].trials.size());
  EXPECT_EQ(rows[0]["query"], "rain wind");
  EXPECT_EQ(rows[0]["kind"], "in-scope");
  EXPECT_EQ(rows[0]["candidates"][0], "a/get_weather");
  EXPECT_EQ(rows[0]["right"], true);
  EXPECT_EQ(rows[0]["outcome"], "route");
  EXPECT_EQ(rows[1]["kind"], "near-miss");
  EXPECT_EQ(rows[1]["pool"], 3);
  EXPECT_EQ(rows[1]["right"], false);
  EXPECT_EQ(rows.back()["kind"], "out-of-scope");
}

TEST(RouteStudyTest, AnEncoderIsAskedOnceForEachText) {
  route::FakeEmbedder fake;
  MemoEmbedder memo(&fake);
  RouteStudyModels models;
  models.encoder = &memo;
  models.uncached = &fake;
  RouteStudyOptions options;
  options.pool = PoolKind::kRandom;
  options.sizes = {2, 3};
  options.seeds = 3;
  options.latency_queries = 2;
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       RunRouteStudy(Tools(), Queries(), models, options));
  EXPECT_EQ(memo.embedded_count(), 4 + 5);
  ASSERT_EQ(study.points.size(), 2U);
  EXPECT_EQ(study.points[0].trials.size(), 5U * 3);
  for (const StudyPoint& point : study.points) {
    EXPECT_EQ(point.timings.size(), 2U);
    for (const RouteTrial& trial : point.trials) {
      EXPECT_EQ(trial.pool_tools, point.size);
    }
  }
  // The same again: decisions don't depend on the run.
  ASSERT_OK_AND_ASSIGN(const RouteStudy again,
                       RunRouteStudy(Tools(), Queries(), models, options));
  for (size_t i = 0; i < study.points[1].trials.size(); ++i) {
    EXPECT_EQ(study.points[1].trials[i].chosen,
              again.points[1].trials[i].chosen);
    EXPECT_EQ(study.points[1].trials[i].rule, again.points[1].trials[i].rule);
  }
}

TEST(RouteStudyTest, DenseBaselinesAgreeOverThePoolAndTheRegistry) {
  route::FakeEmbedder fake;
  MemoEmbedder memo(&fake);
  RouteStudyModels models;
  models.encoder = &memo;
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       RunRouteStudy(Tools(), Queries(), models, {}));
  const RouteSummary summary = Summarize(study, study.points[0]);
  for (const Ranking ranking :
       {Ranking::kDenseFp32, Ranking::kDenseInt8, Ranking::kFused}) {
    EXPECT_DOUBLE_EQ(summary.rankings[static_cast<size_t>(ranking)].top1.value,
                     0.75);
  }
}

TEST(RouteStudyTest, TokensOfThePoolAreSetAgainstTheToolThatWasChosen) {
  RouteStudyOptions options;
  options.count_tokens = [](const schema::ToolSchema& tool) -> Result<int> {
    return static_cast<int>(tool.name.size());
  };
  ASSERT_OK_AND_ASSIGN(
      const RouteStudy study,
      RunRouteStudy(Tools(), {Query("rain wind", {"get_weather"})}, {},
                    options));
  const RouteSummary summary = Summarize(study, study.points[0]);
  EXPECT_DOUBLE_EQ(summary.tokens_all, 11 + 9 + 11 + 8);
  EXPECT_DOUBLE_EQ(summary.tokens_bm25_top5, 11);
  EXPECT_DOUBLE_EQ(summary.tokens_chosen, 11);
}

TEST(RouteStudyTest, BadInputIsAnErrorOrANote) {
  EXPECT_EQ(RunRouteStudy({}, Queries(), {}, {}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(RunRouteStudy(Tools(), {}, {}, {}).status().code(),
            StatusCode::kInvalidArgument);
  const auto unknown =
      RunRouteStudy(Tools(), {Query("x", {"no_such_tool"})}, {}, {});
  EXPECT_THAT(unknown.status().message(), HasSubstr("no_such_tool"));

  RouteStudyOptions options;
  options.pool = PoolKind::kRandom;
  options.sizes = {2, 50, 100};
  ASSERT_OK_AND_ASSIGN(const RouteStudy large,
                       RunRouteStudy(Tools(), Queries(), {}, options));
  EXPECT_EQ(large.points.size(), 2U);
  EXPECT_EQ(large.points[1].size, 4);
  EXPECT_EQ(large.warnings.size(), 2U);

  std::vector<schema::ToolSchema> doubled = Tools();
  doubled.push_back(Tool("get_song", "another tune", "c"));
  ASSERT_OK_AND_ASSIGN(const RouteStudy twice,
                       RunRouteStudy(doubled, Queries(), {}, {}));
  EXPECT_THAT(twice.warnings.at(0), HasSubstr("share their name"));

  const std::atomic<bool> cancel{true};
  options.cancel = &cancel;
  EXPECT_EQ(RunRouteStudy(Tools(), Queries(), {}, options).status().code(),
            StatusCode::kCancelled);
}

TEST(RouteStudyTest, OneToolOneClassEmptyAndHugeQueriesArePlainFigures) {
  RouteStudyOptions options;
  options.near_miss = true;
  ASSERT_OK_AND_ASSIGN(
      const RouteStudy study,
      RunRouteStudy({Tool("only", "rain")},
                    {Query("", {"only"}), Query("rain", {"only"}),
                     Query(std::string(100'000, 'x') + " rain", {"only"})},
                    {}, options));
  const RouteSummary summary = Summarize(study, study.points[0]);
  EXPECT_EQ(summary.queries, 3);
  EXPECT_DOUBLE_EQ(summary.rankings[kNexus].top1.value, 2.0 / 3);
  EXPECT_DOUBLE_EQ(summary.abstain_share.value, 1.0 / 3);
  EXPECT_DOUBLE_EQ(summary.false_route.value, 0);

  ASSERT_OK_AND_ASSIGN(
      const RouteStudy outside,
      RunRouteStudy(Tools(), {Query("zebra", {}), Query("lion", {})}, {}, {}));
  const RouteSummary none = Summarize(outside, outside.points[0]);
  EXPECT_EQ(none.queries, 0);
  EXPECT_EQ(none.false_route.queries, 2);
  const Json report = ReportJson(outside, {none});
  EXPECT_TRUE(std::isfinite(report["auto_precision"].get<double>()));
}

TEST(RouteReportTest, JsonHasTheFixedFields) {
  RouteStudyOptions options;
  options.near_miss = true;
  options.pool = PoolKind::kRandom;
  options.sizes = {2, 3};
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       RunRouteStudy(Tools(), Queries(), {}, options));
  std::vector<RouteSummary> summaries;
  for (const StudyPoint& point : study.points) {
    summaries.push_back(Summarize(study, point));
  }
  const Json report = ReportJson(study, summaries);
  for (const char* field :
       {"n", "tools", "top1", "recall_at_5", "auto_share", "auto_precision",
        "reranked_share", "abstain_share"}) {
    EXPECT_TRUE(report[field].is_number()) << field;
  }
  EXPECT_EQ(report["n"], 4);
  EXPECT_EQ(report["tools"], 3);
  EXPECT_EQ(report["oos"]["n"], 4);
  EXPECT_TRUE(report["oos"]["false_route"].is_number());
  EXPECT_EQ(report["ci95"]["top1"].size(), 2U);
  for (const char* stage : {"embed", "scan", "gate", "rerank"}) {
    EXPECT_TRUE(report["latency_us"][stage]["p50"].is_number()) << stage;
    EXPECT_TRUE(report["latency_us"][stage]["p95"].is_number()) << stage;
  }
  EXPECT_EQ(report["sweep"].size(), 2U);
  EXPECT_EQ(report["rankings"][0]["name"], "bm25");

  const std::string text = ReportMarkdown(study, summaries, {"t", {"a"}, 0});
  EXPECT_THAT(text, HasSubstr("| tools | ranking"));
  EXPECT_THAT(text, HasSubstr("AUROC"));
  const std::string svg = ReportSvg(study, summaries, "t");
  EXPECT_THAT(svg, HasSubstr("Risk over coverage, 3 tools"));
  EXPECT_THAT(svg, HasSubstr("stroke-opacity"));  // intervals
}

}  // namespace
}  // namespace nexus::eval
