#include "nexus/engine/fidelity.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

TEST(FidelityTest, LogSoftmaxSumsToOneAndSurvivesLargeLogits) {
  const std::array<float, 4> logits = {900.0F, 901.0F, -900.0F, 899.0F};
  std::array<float, 4> log_probs{};
  LogSoftmax(logits, log_probs);
  double sum = 0;
  for (const float x : log_probs) sum += std::exp(static_cast<double>(x));
  EXPECT_NEAR(sum, 1.0, 1e-5);
  EXPECT_NEAR(static_cast<double>(log_probs[1] - log_probs[0]), 1.0, 1e-4);
}

TEST(FidelityTest, KlOfADistributionWithItselfIsZero) {
  const std::array<float, 3> logits = {0.1F, 2.0F, -1.0F};
  std::array<float, 3> p{};
  LogSoftmax(logits, p);
  EXPECT_EQ(KlDivergence(p, p), 0.0);
}

TEST(FidelityTest, KlAgreesWithTheClosedFormOfTwoCoins) {
  const auto coin = [](double heads) {
    return std::array<float, 2>{static_cast<float>(std::log(heads)),
                                static_cast<float>(std::log(1 - heads))};
  };
  const double expected =
      0.75 * std::log(0.75 / 0.5) + 0.25 * std::log(0.25 / 0.5);
  EXPECT_NEAR(KlDivergence(coin(0.75), coin(0.5)), expected, 1e-6);
}

// The rows of a batch must be those of the same positions: an off-by-one would
// compare each token with its neighbour's distribution.
TEST(FidelityTest, AFullPrefillAgreesWithItselfAtEveryPosition) {
  ASSERT_OK_AND_ASSIGN(auto tiny, testing::TinyEngine::Create({}));
  const schema::ToolSchema tool = testing::SampleTool();
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan,
                       tiny->engine().planner().PlanCall(
                           testing::SampleConversation("A berth for the Ida?"),
                           {&tool, 1}, ArgumentMode::kSchema, tool.name));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&tiny->engine()));
  ASSERT_OK(session->Prepare(plan, {.tier = Tier::kPrefill}).status());
  ASSERT_OK_AND_ASSIGN(const FidelityReference reference,
                       GenerateReference(*session, 12));
  ASSERT_EQ(reference.tokens.size(), reference.log_probs.size());
  for (size_t i = 0; i < reference.tokens.size(); ++i) {
    const auto& row = reference.log_probs[i];
    EXPECT_EQ(std::max_element(row.begin(), row.end()) - row.begin(),
              reference.tokens[i])
        << "position " << i;
  }

  ASSERT_OK(session->TruncateTo(0));
  ASSERT_OK(session->Prepare(plan, {.tier = Tier::kPrefill}).status());
  ASSERT_OK_AND_ASSIGN(const FidelityStats same,
                       CompareWithReference(*session, reference));
  EXPECT_EQ(same.kl.size(), reference.tokens.size());
  EXPECT_LT(same.KlMean(), 1e-6);
  EXPECT_EQ(same.Top1(), 1.0);
}

}  // namespace
}  // namespace nexus::engine
