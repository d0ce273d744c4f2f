#include "nexus/calibrate/fidelity_study.h"

#include <atomic>
#include <map>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/calibrate/trial_log.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::calibrate {
namespace {

using ::testing::HasSubstr;

StudyOptions SmallStudy() {
  StudyOptions options;
  options.depths = {200, 400};
  options.tools = 2;
  options.generated_tokens = 6;
  options.arms = {{kv::RepairPolicy::kNone, 0, 2},
                  {kv::RepairPolicy::kSensitivity, 0.5, 2},
                  {kv::RepairPolicy::kDeviation, 0.5, 2},
                  {kv::RepairPolicy::kNone, 0, 2, 0.5},
                  {.policy = kv::RepairPolicy::kSensitivity,
                   .share = 0.5,
                   .contexts = 2,
                   .min_run = 1}};
  return options;
}

class FidelityStudyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, engine::testing::TinyEngine::Create({}));
  }

  Result<TrialLog> Open(const StudyOptions& options) {
    return OpenTrialLog(FileSystem::Default(), dir_.File("trials.jsonl"),
                        StudyIdentity(tiny_->engine(), options));
  }

  std::unique_ptr<engine::testing::TinyEngine> tiny_;
  ScopedTempDir dir_;
};

TEST_F(FidelityStudyTest, MeasuresEveryArmOfEveryTrialOnce) {
  const StudyOptions options = SmallStudy();
  std::map<std::string, Trial> trials;
  ASSERT_OK(RunFidelityStudy(tiny_->engine(), options, {}, [&](Trial trial) {
    EXPECT_TRUE(trials.emplace(trial.Key(), trial).second) << trial.Key();
    return Status::Ok();
  }));
  ASSERT_EQ(trials.size(), 4U);  // 2 depths x 2 tools
  for (const auto& [key, trial] : trials) {
    EXPECT_LE(trial.past_tokens, trial.depth);
    ASSERT_EQ(trial.arms.size(), 1 + options.arms.size()) << key;
    EXPECT_TRUE(trial.arms[0].noise);
    const size_t positions = trial.arms[0].kl.size();
    EXPECT_GE(positions, 1U);
    for (const TrialArm& arm : trial.arms) {
      EXPECT_EQ(arm.kl.size(), positions) << key;
      EXPECT_EQ(arm.top1.size(), positions) << key;
    }
    // Half of the tokens decoded again leaves less of the profile unrepaired.
    EXPECT_NEAR(trial.arms[2].recompute_share, 0.5, 0.01);
    EXPECT_LT(trial.arms[2].predicted, trial.arms[1].predicted);
    EXPECT_GT(trial.prefill_ms, 0);
    // From the conversation's own half, with nothing decoded again.
    EXPECT_EQ(trial.arms[4].arm.shared, 0.5);
    EXPECT_EQ(trial.arms[4].recompute_share, 0);
    // The same share in single tokens, which picks the highest of the profile.
    EXPECT_NEAR(trial.arms[5].recompute_share, 0.5, 0.01);
    EXPECT_GT(trial.arms[5].runs, trial.arms[2].runs);
    EXPECT_LT(trial.arms[5].predicted, trial.arms[2].predicted);
  }
  // Blocks of the conversation are nobody else's: only the compiled ones stay.
  ASSERT_OK_AND_ASSIGN(const auto stored, tiny_->engine().store()->List());
  EXPECT_EQ(stored.size(), 2U);
}

// Two jobs behind one history take their blocks on one way through it, and the
// trial of each must not depend on the other's.
TEST_F(FidelityStudyTest, AConversationBlockIsTheSameWhoeverElseIsMeasured) {
  StudyOptions options = SmallStudy();
  options.depths = {300};
  options.tools = 5;  // the first and the fifth stand behind one kind
  options.arms = {{kv::RepairPolicy::kNone, 0, 2, 0.5}};
  std::map<std::string, Trial> trials;
  const auto keep = [&](Trial trial) {
    trials[trial.Key()] = std::move(trial);
    return Status::Ok();
  };
  ASSERT_OK(RunFidelityStudy(tiny_->engine(), options, {}, keep));
  ASSERT_EQ(trials.size(), 5U);
  std::map<std::string, Trial> done = trials;
  const Trial last = done.extract(std::prev(done.end())).mapped();
  ASSERT_OK(RunFidelityStudy(tiny_->engine(), options, done, keep));
  EXPECT_EQ(trials[last.Key()].arms[1].kl, last.arms[1].kl);
}

TEST_F(FidelityStudyTest, GoesOnFromWhatWasMeasured) {
  const StudyOptions options = SmallStudy();
  {
    ASSERT_OK_AND_ASSIGN(TrialLog log, Open(options));
    int left = 2;
    const Status stopped = RunFidelityStudy(
        tiny_->engine(), options, log.trials(), [&](Trial trial) {
          if (left-- == 0) return CancelledError("enough");
          return log.Append(std::move(trial));
        });
    EXPECT_EQ(stopped.code(), StatusCode::kCancelled);
  }
  ASSERT_OK_AND_ASSIGN(TrialLog log, Open(options));
  EXPECT_EQ(log.trials().size(), 2U);
  const std::map<std::string, Trial> done = log.trials();
  int more = 0;
  ASSERT_OK(RunFidelityStudy(tiny_->engine(), options, done, [&](Trial trial) {
    ++more;
    EXPECT_FALSE(done.contains(trial.Key()));
    return log.Append(std::move(trial));
  }));
  EXPECT_EQ(more, 2);
  EXPECT_EQ(SortedTrials(log).size(), 4U);
}

TEST_F(FidelityStudyTest, StudiesOfOtherArmsAreReportedTogether) {
  const StudyOptions options = SmallStudy();
  const Json identity = StudyIdentity(tiny_->engine(), options);
  const std::string path = dir_.File("trials.jsonl");
  FileSystem& fs = FileSystem::Default();
  EXPECT_EQ(ReadTrialsOfAnyArms(fs, path, identity).status().code(),
            StatusCode::kNotFound);
  StudyOptions others = options;
  others.arms = {{.contexts = 1}, {.contexts = 4}};
  {
    ASSERT_OK_AND_ASSIGN(TrialLog log, Open(others));
    Trial trial = {.depth = 1, .tool = "a"};
    trial.arms = {
        {.noise = true}, {.arm = {.contexts = 1}}, {.arm = {.contexts = 4}}};
    ASSERT_OK(log.Append(trial));
  }
  EXPECT_FALSE(Open(options).ok());
  ASSERT_OK_AND_ASSIGN(std::vector<Trial> more,
                       ReadTrialsOfAnyArms(fs, path, identity));
  ASSERT_EQ(more.size(), 1U);
  // What both have counts once; another tool's counts.
  Trial own = {.depth = 1, .tool = "a"};
  own.arms = {{.noise = true}, {.arm = {.contexts = 4}}};
  Trial of_another = more[0];
  of_another.tool = "b";
  std::vector<Trial> all = {own};
  AddTrials(more, &all);
  AddTrials({of_another}, &all);
  AddTrials(more, &all);
  ASSERT_EQ(all.size(), 3U);
  ASSERT_EQ(all[1].arms.size(), 1U);
  EXPECT_EQ(all[1].arms[0].arm.contexts, 1);
  EXPECT_EQ(all[2].arms.size(), 3U);

  Json of_another_model = identity;
  of_another_model["model"] = "another";
  EXPECT_EQ(ReadTrialsOfAnyArms(fs, path, of_another_model).status().code(),
            StatusCode::kIncompatible);
}

TEST_F(FidelityStudyTest, TrialsOfAnotherStudyAreRefused) {
  StudyOptions options = SmallStudy();
  {
    ASSERT_OK_AND_ASSIGN(TrialLog log, Open(options));
    ASSERT_OK(log.Append(Trial{.depth = 1}));
  }
  options.arms.pop_back();
  const Status other = Open(options).status();
  EXPECT_EQ(other.code(), StatusCode::kIncompatible);
  EXPECT_THAT(other.message(), HasSubstr("'arms' is"));
}

TEST_F(FidelityStudyTest, DamagedTrialsNameFileAndLine) {
  const StudyOptions options = SmallStudy();
  const std::string path = dir_.File("trials.jsonl");
  const std::string head =
      DumpJson(StudyIdentity(tiny_->engine(), options)) + "\n";
  for (const char* line : {"{\"depth\":", "{}", "[1]", "{\"depth\":\"x\"}"}) {
    ASSERT_OK(
        WriteFileAtomically(FileSystem::Default(), path, head + line + "\n"));
    const Status status = Open(options).status();
    ASSERT_FALSE(status.ok()) << line;
    EXPECT_THAT(status.message(), HasSubstr(path + ":2")) << line;
  }
}

TEST_F(FidelityStudyTest, StopsBetweenArmsWhenAsked) {
  std::atomic<bool> cancel{true};
  StudyOptions options = SmallStudy();
  options.cancel = &cancel;
  const Status status = RunFidelityStudy(tiny_->engine(), options, {},
                                         [](Trial) { return Status::Ok(); });
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST_F(FidelityStudyTest, ADepthBeyondTheModelIsSaid) {
  StudyOptions options = SmallStudy();
  options.depths = {1'000'000};
  const Status status = RunFidelityStudy(tiny_->engine(), options, {},
                                         [](Trial) { return Status::Ok(); });
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("--depths"));
}

}  // namespace
}  // namespace nexus::calibrate
