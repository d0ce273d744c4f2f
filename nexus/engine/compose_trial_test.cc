#include "nexus/engine/compose_trial.h"

#include <limits>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::engine {
namespace {

using ::testing::HasSubstr;

ComposeTrial SomeTrial() {
  ComposeTrial trial;
  trial.list = "0a1b";
  trial.question = "2c3d";
  trial.arm = "generic:25";
  trial.recipe = "list-hermes-generic-6-01234567";
  trial.share = 0.25;
  trial.list_tokens = 676;
  trial.tool = "weather/get_forecast";
  trial.arguments = "{\"city\": \"Oslo\"}";
  trial.choice_right = true;
  trial.args_right = false;
  trial.kl = {0.5, 0, 1e-9};
  trial.first_top1 = true;
  trial.laying = ComposeLaying{
      .ms = 812.5, .spliced = 400, .recomputed = 130, .notes = {"splice: x"}};
  return trial;
}

TEST(ComposeTrialTest, ComesBackAsItWas) {
  ComposeTrial reference = SomeTrial();
  reference.arm = kComposeReference;
  reference.args_right.reset();
  reference.laying.reset();
  for (const ComposeTrial& trial : {SomeTrial(), reference}) {
    const Json json = ComposeTrialToJson(trial);
    ASSERT_OK_AND_ASSIGN(const Json read, ParseJson(DumpJson(json), "test"));
    ASSERT_OK_AND_ASSIGN(const ComposeTrial back,
                         ComposeTrialFromJson(read, "test"));
    EXPECT_EQ(ComposeTrialToJson(back), json);
    EXPECT_EQ(back.Key(), trial.Key());
  }
  EXPECT_EQ(SomeTrial().Pair(), reference.Pair());
  EXPECT_NE(SomeTrial().Key(), reference.Key());
}

// Any field gone, or of another kind: a Status with the source.
TEST(ComposeTrialTest, DamageOfAnyKindIsAStatus) {
  const Json good = ComposeTrialToJson(SomeTrial());
  for (const auto& [field, value] : good.items()) {
    Json bad = good;
    if (field != "laying") {
      bad.erase(field);
      const Status status = ComposeTrialFromJson(bad, "log:7").status();
      EXPECT_EQ(status.code(), StatusCode::kCorruption) << field;
      EXPECT_THAT(status.message(), HasSubstr("log:7"));
    }
    bad[field] = Json::array({Json::object()});
    EXPECT_EQ(ComposeTrialFromJson(bad, "log:7").status().code(),
              StatusCode::kCorruption)
        << field;
  }
  Json bad = good;
  bad["share"] = 1.5;
  EXPECT_FALSE(ComposeTrialFromJson(bad, "x").ok());
  bad = good;
  bad["kl"] = {std::numeric_limits<double>::infinity()};
  EXPECT_FALSE(ComposeTrialFromJson(bad, "x").ok());
  bad = good;
  bad["laying"]["spliced"] = -1;
  EXPECT_FALSE(ComposeTrialFromJson(bad, "x").ok());
  for (const Json& no_object : {Json(), Json(3), Json::array()}) {
    EXPECT_FALSE(ComposeTrialFromJson(no_object, "x").ok());
  }
}

TEST(ComposeLogTest, AFileOfAnotherKindIsNamed) {
  ScopedTempDir dir;
  FileSystem& fs = FileSystem::Default();
  EXPECT_EQ(
      ReadComposeLog(fs, dir.File("none"), Json::object()).status().code(),
      StatusCode::kNotFound);
  const std::string path = dir.File("other.jsonl");
  // A log of `bench fidelity`.
  ASSERT_OK(WriteFileAtomically(fs, path, "{\"trial_version\":1}\n"));
  const Status other = ReadComposeLog(fs, path, Json::object()).status();
  EXPECT_EQ(other.code(), StatusCode::kIncompatible);
  EXPECT_THAT(other.message(), HasSubstr("compose_trial_version"));
  // The right version and nothing else.
  ASSERT_OK(WriteFileAtomically(fs, path, "{\"compose_trial_version\":1}\n"));
  ASSERT_OK_AND_ASSIGN(const ComposeLog log,
                       ReadComposeLog(fs, path, Json::object()));
  const Status setting = ComposeSettingOf(log, path).status();
  EXPECT_EQ(setting.code(), StatusCode::kCorruption);
  EXPECT_THAT(setting.message(), HasSubstr(path));
}

}  // namespace
}  // namespace nexus::engine
