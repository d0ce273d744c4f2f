#include "nexus/calibrate/composition_fit.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/compose_bench.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::calibrate {
namespace {

using engine::ComposeStudy;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Outcome {
  int n = 0;
  int only_reference = 0;  // right choices that the arm loses
  bool has_args = true;
};

// `n` questions that the reference gets right, with the arm's outcome.
ComposeStudy Study(const std::string& arm, const Outcome& outcome,
                   int blocks = 5, int samples = 6) {
  ComposeStudy study;
  study.setting.blocks = blocks;
  study.setting.samples = samples;
  study.setting.max_tokens = 96;
  for (int i = 0; i < outcome.n; ++i) {
    engine::ComposeTrial trial;
    trial.list = "list" + std::to_string(i / 10);
    trial.question = std::to_string(i);
    trial.arm = engine::kComposeReference;
    trial.list_tokens = 700;
    trial.choice_right = true;
    if (outcome.has_args) trial.args_right = true;
    study.trials[trial.Key()] = trial;
    trial.arm = arm;
    trial.recipe = "list-hermes-" + arm.substr(0, arm.find(':')) + "-" +
                   std::to_string(samples) + "-01234567";
    trial.share = 0.25;
    trial.choice_right = i >= outcome.only_reference;
    trial.kl = {0.01};
    study.trials[trial.Key()] = trial;
  }
  return study;
}

Result<std::vector<engine::CompositionRow>> Fit(
    std::vector<ComposeStudy> studies) {
  return FitComposition(studies);
}

TEST(CompositionFitTest, HalfAPointOfAThousandQuestionsIsAllowedNotMore) {
  ASSERT_OK_AND_ASSIGN(
      const auto rows,
      Fit({Study("generic:25", {.n = 1000, .only_reference = 5})}));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_TRUE(rows[0].allowed) << rows[0].reason;
  EXPECT_EQ(rows[0].blocks, 5);
  EXPECT_EQ(rows[0].recipe, "list-hermes-generic-6-01234567");
  EXPECT_DOUBLE_EQ(rows[0].share, 0.25);
  EXPECT_EQ(rows[0].max_tokens, 700);
  EXPECT_EQ(rows[0].tool_choice.n, 1000);
  EXPECT_NEAR(rows[0].tool_choice.difference(), -0.005, 1e-12);
  EXPECT_LT(rows[0].tool_choice.difference_ci95.low, -0.005);
  EXPECT_DOUBLE_EQ(rows[0].args_exact.splice, 1);
  EXPECT_NEAR(rows[0].kl_mean, 0.01, 1e-9);

  ASSERT_OK_AND_ASSIGN(
      const auto worse,
      Fit({Study("generic:25", {.n = 1000, .only_reference = 6})}));
  EXPECT_FALSE(worse[0].allowed);
  EXPECT_THAT(worse[0].reason, HasSubstr("tool choice 0.6 points below"));
  EXPECT_THAT(worse[0].reason, HasSubstr("1000 questions"));
}

TEST(CompositionFitTest, TooFewQuestionsOrArgumentsAreRefusedByTheirNumber) {
  ASSERT_OK_AND_ASSIGN(const auto few, Fit({Study("generic:25", {.n = 999})}));
  EXPECT_FALSE(few[0].allowed);
  EXPECT_THAT(few[0].reason, HasSubstr("999 questions, 1000 are needed"));
  ASSERT_OK_AND_ASSIGN(
      const auto blind,
      Fit({Study("generic:25", {.n = 1000, .has_args = false})}));
  EXPECT_FALSE(blind[0].allowed);
  EXPECT_THAT(blind[0].reason, HasSubstr("exact arguments asked of 0"));
}

TEST(CompositionFitTest, OnlyWhatASessionCanDoByItselfGetsARow) {
  for (const char* arm :
       {"exact", "given:25", "generic:25+gold", "generic:25+top2", "odd"}) {
    ASSERT_OK_AND_ASSIGN(const auto rows, Fit({Study(arm, {.n = 10})}));
    EXPECT_THAT(rows, IsEmpty()) << arm;
  }
  ASSERT_OK_AND_ASSIGN(const auto rows, Fit({Study("alone:0", {.n = 10})}));
  EXPECT_THAT(rows, SizeIs(1));
}

TEST(CompositionFitTest, LogsOfTheSameListsJoinAndOthersStayApart) {
  ComposeStudy half = Study("generic:25", {.n = 600});
  // The other half, of which a hundred questions are the same.
  ComposeStudy other = Study("generic:25", {.n = 1000});
  for (int i = 0; i < 500; ++i) {
    for (const char* arm : {"prefill", "generic:25"}) {
      engine::ComposeTrial trial;
      trial.list = "list" + std::to_string(i / 10);
      trial.question = std::to_string(i);
      trial.arm = arm;
      other.trials.erase(trial.Key());
    }
  }
  ASSERT_OK_AND_ASSIGN(const auto rows,
                       Fit({half, other, Study("generic:25", {.n = 20}, 20),
                            Study("generic:25", {.n = 30}, 5, 2)}));
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].recipe, "list-hermes-generic-2-01234567");
  EXPECT_EQ(rows[0].tool_choice.n, 30);
  EXPECT_EQ(rows[1].tool_choice.n, 1000);
  EXPECT_TRUE(rows[1].allowed) << rows[1].reason;
  EXPECT_EQ(rows[2].blocks, 20);

  ComposeStudy longer = half;
  longer.setting.max_tokens = 48;
  const Status mixed = Fit({half, longer}).status();
  EXPECT_EQ(mixed.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(mixed.message(), HasSubstr("96 and 48"));
}

TEST(ReadComposeStudiesTest, LogsOfOtherModelsAndDamagedOnesAreNamed) {
  ASSERT_OK_AND_ASSIGN(const auto tiny,
                       engine::testing::TinyEngine::Create({}));
  ScopedTempDir dir;
  FileSystem& fs = FileSystem::Default();
  const std::vector<std::string> paths = {dir.File("log.jsonl")};
  const auto read = [&] {
    return ReadComposeStudies(fs, paths, tiny->engine());
  };
  EXPECT_EQ(read().status().code(), StatusCode::kNotFound);
  const Json own = engine::ComposeIdentity(tiny->engine(), {});
  {
    ASSERT_OK_AND_ASSIGN(engine::ComposeLog log,
                         engine::OpenComposeLog(fs, paths[0], own));
    ASSERT_OK(log.Append({.list = "l", .question = "q", .arm = "prefill"}));
  }
  ASSERT_OK_AND_ASSIGN(const auto studies, read());
  ASSERT_THAT(studies, SizeIs(1));
  EXPECT_EQ(studies[0].setting.blocks, 5);
  EXPECT_THAT(studies[0].trials, SizeIs(1));

  ASSERT_OK_AND_ASSIGN(const std::string whole, fs.ReadFile(paths[0]));
  ASSERT_OK(WriteFileAtomically(fs, paths[0], whole + "{\"list\": 3}\n"));
  const Status damaged = read().status();
  EXPECT_EQ(damaged.code(), StatusCode::kCorruption);
  EXPECT_THAT(damaged.message(), HasSubstr(paths[0] + ":3"));

  Json foreign = own;
  foreign["compose_trial_version"] = 1;
  foreign["model"] = "another";
  ASSERT_OK(WriteFileAtomically(fs, paths[0], DumpJson(foreign) + "\n"));
  const Status other = read().status();
  EXPECT_EQ(other.code(), StatusCode::kIncompatible);
  EXPECT_THAT(other.message(), HasSubstr("'model' is \"another\" there"));
}

}  // namespace
}  // namespace nexus::calibrate
