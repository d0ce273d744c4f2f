#include "nexus/route/gate.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nexus::route {
namespace {

using ::testing::HasSubstr;

// Three tools, each its own twin class unless a test says otherwise; candidates
// in the given order.
class GateTest : public ::testing::Test {
 protected:
  GateDecision DecideOn(std::vector<float> dense, std::vector<int> order,
                        const GateOptions& options = {}) {
    std::vector<Candidate> candidates;
    for (const int tool : order) {
      candidates.push_back({.tool = tool, .exact_name = exact_ > 0});
    }
    return Decide({.candidates = candidates,
                   .dense = dense,
                   .bm25 = bm25_,
                   .scope = scope_,
                   .twin_class = twins_,
                   .exact_mentions = exact_},
                  options);
  }

  std::vector<float> bm25_ = {0, 0, 0};
  std::vector<int> scope_ = {0, 1, 2};
  std::vector<int> twins_ = {0, 1, 2};
  int exact_ = 0;
};

TEST_F(GateTest, RoutesAClearWinner) {
  const GateDecision decision = DecideOn({0.5F, 0.3F, 0.1F}, {0, 1, 2});
  EXPECT_EQ(decision.outcome, Outcome::kRoute);
  EXPECT_EQ(decision.rule, "margin");
  EXPECT_FLOAT_EQ(decision.margin, 0.2F);
  EXPECT_FLOAT_EQ(decision.threshold, 0.0136F);
  EXPECT_THAT(decision.reason, HasSubstr("0.2000"));
}

TEST_F(GateTest, RerankIsForCloseCalls) {
  EXPECT_EQ(DecideOn({0.5F, 0.49F, 0.1F}, {0, 1, 2}).outcome, Outcome::kRerank);
  EXPECT_EQ(DecideOn({0.5F, 0.49F, 0.1F}, {0, 1, 2}).rule, "close-call");
  EXPECT_EQ(DecideOn({0.5F, 0.49F, 0.1F}, {0, 1, 2}, {.tau = 0.005F}).outcome,
            Outcome::kRoute);
}

TEST_F(GateTest, TheRivalMayStandLowInTheFusedOrder) {
  // Tool 2 is the second-best by cosine but last when fused.
  EXPECT_EQ(DecideOn({0.5F, 0.1F, 0.495F}, {0, 1, 2}).rule, "close-call");
}

TEST_F(GateTest, TwinsAreNoRivals) {
  twins_ = {0, 0, 2};
  const GateDecision decision = DecideOn({0.5F, 0.5F, 0.1F}, {0, 1, 2});
  EXPECT_EQ(decision.outcome, Outcome::kRoute);
  EXPECT_FLOAT_EQ(decision.margin, 0.4F);
  // The twin being first in the fused order is no disagreement.
  EXPECT_EQ(DecideOn({0.5F, 0.5F, 0.1F}, {1, 0, 2}).rule, "margin");
}

TEST_F(GateTest, DoesntRouteWhenWordsFavourAnother) {
  const GateDecision decision = DecideOn({0.5F, 0.3F, 0.1F}, {1, 0, 2});
  EXPECT_EQ(decision.outcome, Outcome::kRerank);
  EXPECT_EQ(decision.rule, "disagreement");
}

TEST_F(GateTest, AbstainsOnUnrelatedText) {
  const GateDecision decision = DecideOn({0.05F, -0.1F, 0}, {0, 2, 1});
  EXPECT_EQ(decision.outcome, Outcome::kAbstain);
  EXPECT_EQ(decision.rule, "low-score");
}

TEST_F(GateTest, RoutesTheOnlyToolWhenItFits) {
  scope_ = {1};
  EXPECT_EQ(DecideOn({0, 0.4F, 0}, {1}).rule, "only-tool");
  EXPECT_EQ(DecideOn({0, 0.4F, 0}, {1}).outcome, Outcome::kRoute);
  EXPECT_EQ(DecideOn({0, 0.01F, 0}, {1}).outcome, Outcome::kAbstain);
}

TEST_F(GateTest, AnExactNameRoutesWhateverTheCosine) {
  exact_ = 1;
  const GateDecision decision = DecideOn({0.0F, 0.9F, 0}, {0});
  EXPECT_EQ(decision.outcome, Outcome::kRoute);
  EXPECT_EQ(decision.rule, "exact-name");
}

TEST_F(GateTest, ANameOfSeveralToolsIsntRouted) {
  exact_ = 1;
  EXPECT_EQ(DecideOn({0.9F, 0.1F, 0}, {0, 1}).rule, "exact-name-shared");
  twins_ = {0, 0, 2};
  EXPECT_EQ(DecideOn({0.9F, 0.1F, 0}, {0, 1}).outcome, Outcome::kRoute);
}

TEST_F(GateTest, SeveralNamesArentRouted) {
  exact_ = 2;
  EXPECT_EQ(DecideOn({0.9F, 0.1F, 0}, {0, 1}).outcome, Outcome::kRerank);
  EXPECT_EQ(DecideOn({0.9F, 0.1F, 0}, {0, 1}).rule, "exact-names");
}

TEST_F(GateTest, WordsAloneNeedAClearLead) {
  bm25_ = {8, 4, 0};
  EXPECT_EQ(DecideOn({}, {0, 1}).rule, "bm25-margin");
  EXPECT_EQ(DecideOn({}, {0, 1}).outcome, Outcome::kRoute);
  EXPECT_FLOAT_EQ(DecideOn({}, {0, 1}).margin, 0.5F);
  bm25_ = {8, 7, 0};
  EXPECT_EQ(DecideOn({}, {0, 1}).outcome, Outcome::kRerank);
}

TEST_F(GateTest, AbstainsWithoutCandidates) {
  EXPECT_EQ(DecideOn({}, {}).outcome, Outcome::kAbstain);
  EXPECT_EQ(DecideOn({}, {}).rule, "no-match");
}

}  // namespace
}  // namespace nexus::route
