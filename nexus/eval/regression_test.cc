// The committed routing set: the exact decision by words for every query, and a
// floor under each headline figure with the committed encoder. A change that
// moves a decision shows here as the query it is about.
#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "gtest/gtest.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/eval/route_summary.h"
#include "nexus/eval/testing/committed_set.h"

namespace nexus::eval {
namespace {

constexpr auto kNexus = static_cast<size_t>(Ranking::kNexus);
constexpr auto kInt8 = static_cast<size_t>(Ranking::kDenseInt8);

Result<RouteStudy> StudyCommittedSet(const RouteStudyModels& models,
                                     const RouteStudyOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(auto tools, CommittedTools());
  NEXUS_ASSIGN_OR_RETURN(auto queries,
                         ReadQueryFile(kCommittedSet + "queries.jsonl"));
  return RunRouteStudy(std::move(tools), std::move(queries), models, options);
}

Result<RouteStudy> StudyWithEncoder(const std::string& name) {
  NEXUS_ASSIGN_OR_RETURN(const CommittedEncoder encoder,
                         LoadCommittedEncoder(name));
  RouteStudyModels models;
  models.encoder = encoder.memo.get();
  RouteStudyOptions options;
  options.near_miss = true;
  options.router = encoder.router;
  return StudyCommittedSet(models, options);
}

// Outcome, rule and tool of each query against a file of id, tab, these. The
// message has the whole line, to be read before it is taken over. The engine
// rounds a text's activations otherwise from processor to processor: between
// AVX-512 and AVX2 margins were seen to move by 0.001. Where the margin is that
// near to tau only the tool is compared.
void ExpectDecisions(const RouteStudy& study, const std::string& file) {
  ASSERT_OK_AND_ASSIGN(const std::string text,
                       FileSystem::Default().ReadFile(kCommittedSet + file));
  std::map<std::string, std::string> expected;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    ASSERT_NE(tab, std::string::npos) << line;
    expected[line.substr(0, tab)] = line.substr(tab + 1);
  }
  size_t asked = 0;
  for (const RouteTrial& trial : study.points[0].trials) {
    if (trial.kind == QueryKind::kNearMiss) continue;
    ++asked;
    const LabelledQuery& query =
        study.labels.queries[static_cast<size_t>(trial.query)];
    const std::string decision =
        std::string(route::OutcomeName(trial.outcome)) + "\t" + trial.rule +
        "\t" +
        (trial.chosen < 0 ? "none"
                          : schema::ToolId(study.registry->tool(trial.chosen)));
    const bool by_margin = trial.rule == "margin" || trial.rule == "close-call";
    const bool is_near =
        by_margin && std::abs(trial.margin - route::GateOptions().tau) < 0.002F;
    const auto compared = [&](const std::string& line) {
      return is_near ? line.substr(line.rfind('\t') + 1) : line;
    };
    EXPECT_EQ(compared(decision), compared(expected[query.id]))
        << query.id << "\t" << decision << "\n"
        << query.text << " (margin " << trial.margin << ")";
  }
  EXPECT_EQ(expected.size(), asked);
}

TEST(RoutingRegressionTest, EachDecisionByWordsIsAsExpected) {
  ASSERT_OK_AND_ASSIGN(const RouteStudy study, StudyCommittedSet({}, {}));
  ExpectDecisions(study, "bm25_decisions.tsv");
}

TEST(RoutingRegressionTest, EachDecisionByTheTunedEncoderIsAsExpected) {
  ASSERT_OK_AND_ASSIGN(const RouteStudy study, StudyWithEncoder(kTunedEncoder));
  ExpectDecisions(study, "tuned_decisions.tsv");
}

// The goal's 100 %: in a sentence, with its server, before a particle, alone.
// A name decides before any score does, so words are enough here; that it
// decides over the encoder's first choice too, the first form shows.
TEST(RoutingRegressionTest, EveryToolThatIsNamedIsFound) {
  ASSERT_OK_AND_ASSIGN(const auto tools, CommittedTools());
  ASSERT_OK_AND_ASSIGN(const CommittedEncoder encoder,
                       LoadCommittedEncoder(kTunedEncoder));
  ASSERT_OK_AND_ASSIGN(const auto index,
                       route::ToolIndex::Build(tools, encoder.memo.get()));
  const route::Router with_encoder(index, encoder.memo.get(), encoder.router);
  const route::Router by_words(index, nullptr);
  const std::vector<std::pair<std::string, std::string>> forms = {
      {"Use ", " for me, please"},
      {"please run ", "."},
      {"Could you call `", "` today?"},
      {"", "를 호출해 줘"},
      {"请调用", "工具"},
      {"", ""}};
  for (const schema::ToolSchema& tool : tools) {
    for (size_t form = 0; form < forms.size(); ++form) {
      for (const std::string& name : {tool.name, schema::ToolId(tool)}) {
        const std::string query = forms[form].first + name + forms[form].second;
        const bool is_id = name != tool.name;
        const route::Router& router =
            form == 0 && !is_id ? with_encoder : by_words;
        ASSERT_OK_AND_ASSIGN(const auto decision, router.Route(query));
        ASSERT_FALSE(decision.candidates.empty()) << query;
        const route::Candidate& first = decision.candidates.front();
        EXPECT_TRUE(first.exact_name) << query;
        EXPECT_EQ(decision.tool(first).name, tool.name) << query;
        if (!is_id) continue;
        EXPECT_EQ(decision.rule, "exact-name") << query;
        EXPECT_EQ(decision.tool(first).server, tool.server) << query;
      }
    }
  }
}

TEST(RoutingRegressionTest, UntunedEncoderStaysAboveItsFloors) {
  ASSERT_OK_AND_ASSIGN(const RouteStudy study,
                       StudyWithEncoder("all-MiniLM-L6-v2-Q8_0.gguf"));
  const RouteSummary summary = Summarize(study, study.points[0]);
  // Measured: 78.5, 75.4, 93.8, 84.6, 78.2 and 31.2 %. A query or two below.
  EXPECT_EQ(summary.queries, 65);
  EXPECT_GE(summary.rankings[kInt8].top1.value, 0.75);
  EXPECT_GE(summary.rankings[kNexus].top1.value, 0.72);
  EXPECT_GE(summary.rankings[kNexus].recall_at_5.value, 0.90);
  EXPECT_GE(summary.auto_share.value, 0.78);
  EXPECT_GE(summary.auto_precision.value, 0.74);
  EXPECT_LE(summary.false_route_labelled.value, 0.4);
  // A tool that is named is found: all four.
  int named = 0;
  for (const RouteTrial& trial : study.points[0].trials) {
    const auto query = static_cast<size_t>(trial.query);
    if (study.labels.queries[query].part != "name" ||
        trial.kind != QueryKind::kInScope) {
      continue;
    }
    EXPECT_TRUE(trial.hits[kNexus].first) << study.labels.queries[query].text;
    ++named;
  }
  EXPECT_EQ(named, 4);
}

TEST(RoutingRegressionTest, TunedEncoderStaysAboveItsFloors) {
  ASSERT_OK_AND_ASSIGN(const RouteStudy study, StudyWithEncoder(kTunedEncoder));
  const RouteSummary summary = Summarize(study, study.points[0]);
  // Measured: 86.2, 83.1, 96.9, 84.6 and 83.6 %; false routing 43.8 and, of
  // near misses, 70.5 %: the margin rule can't tell these, and it must not get
  // worse.
  EXPECT_EQ(summary.queries, 65);
  EXPECT_GE(summary.rankings[kInt8].top1.value, 0.83);
  EXPECT_GE(summary.rankings[kNexus].top1.value, 0.80);
  EXPECT_GE(summary.rankings[kNexus].recall_at_5.value, 0.93);
  EXPECT_GE(summary.auto_share.value, 0.78);
  EXPECT_GE(summary.auto_precision.value, 0.80);
  EXPECT_LE(summary.false_route_labelled.value, 0.50);
  EXPECT_LE(summary.false_route_near_miss.value, 0.74);
}

}  // namespace
}  // namespace nexus::eval
