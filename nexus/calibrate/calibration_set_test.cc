#include "nexus/calibrate/calibration_set.h"

#include <set>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/compile/compile_contexts.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::calibrate {
namespace {

TEST(CalibrationSetTest, HasToolsWithQuestionsAndFourKindsOfHistory) {
  ASSERT_OK_AND_ASSIGN(const CalibrationSet set, LoadCalibrationSet());
  EXPECT_GE(set.cases.size(), 20U);
  std::set<std::string> names;
  for (const CalibrationCase& one : set.cases) {
    EXPECT_TRUE(names.insert(one.tool.name).second) << one.tool.name;
    EXPECT_FALSE(one.questions.empty()) << one.tool.name;
  }
  ASSERT_EQ(set.histories.size(), 4U);
  for (const CalibrationHistory& history : set.histories) {
    EXPECT_GE(history.text.size(), 26000U) << history.kind;
  }
}

// A block measured behind the text that it was compiled behind would look
// better than it is.
TEST(CalibrationSetTest, SharesNoSentenceWithTheCompileContexts) {
  ASSERT_OK_AND_ASSIGN(const CalibrationSet set, LoadCalibrationSet());
  constexpr size_t kPiece = 48;
  for (const compile::CompileText& text : compile::CompileTexts()) {
    for (const std::string_view part : {text.user, text.answer}) {
      for (size_t at = 0; at + kPiece <= part.size(); at += kPiece / 2) {
        for (const CalibrationHistory& history : set.histories) {
          ASSERT_EQ(history.text.find(part.substr(at, kPiece)),
                    std::string_view::npos)
              << text.name << " in " << history.kind << ": "
              << part.substr(at, kPiece);
        }
      }
    }
  }
}

TEST(CalibrationSetTest, HistoriesAreAsDeepAsAskedAndNoDeeper) {
  ASSERT_OK_AND_ASSIGN(const CalibrationSet set, LoadCalibrationSet());
  ASSERT_OK_AND_ASSIGN(auto tiny, engine::testing::TinyEngine::Create({}));
  const engine::PromptPlanner& planner = tiny->engine().planner();
  for (const CalibrationHistory& history : set.histories) {
    for (const int depth : {200, 900}) {
      ASSERT_OK_AND_ASSIGN(const std::vector<llm::Token> tokens,
                           HistoryOfDepth(planner, history, depth));
      EXPECT_LE(tokens.size(), static_cast<size_t>(depth)) << history.kind;
      // A dialogue is cut at turns, the others at characters.
      if (history.kind != "dialogue") {
        EXPECT_GE(tokens.size(), static_cast<size_t>(depth) - 8)
            << history.kind;
      }
    }
    const Status too_deep =
        HistoryOfDepth(planner, history, 10'000'000).status();
    EXPECT_EQ(too_deep.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(too_deep.message().find(history.kind), std::string::npos);
  }
}

}  // namespace
}  // namespace nexus::calibrate
