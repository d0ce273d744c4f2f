#include "nexus/calibrate/study_arm.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::calibrate {
namespace {

using ::testing::HasSubstr;

TEST(ParseStudyArmTest, ReadsEveryForm) {
  using kv::RepairPolicy;
  const std::pair<const char*, StudyArm> arms[] = {
      {"none", {.policy = RepairPolicy::kNone}},
      {"suffix:22", {.policy = RepairPolicy::kSuffix, .share = 0.22}},
      {"head:22", {.policy = RepairPolicy::kHead, .share = 0.22}},
      {"head-tail:10", {.policy = RepairPolicy::kHeadTail, .share = 0.1}},
      {"sensitivity:15", {.policy = RepairPolicy::kSensitivity, .share = 0.15}},
      {"deviation:22", {.policy = RepairPolicy::kDeviation, .share = 0.22}},
      {"sensitivity:7.5/1",
       {.policy = RepairPolicy::kSensitivity, .share = 0.075, .min_run = 1}},
      {"none@50", {.policy = RepairPolicy::kNone, .shared = 0.5}},
      {"head:22/4@90",
       {.policy = RepairPolicy::kHead,
        .share = 0.22,
        .shared = 0.9,
        .min_run = 4}}};
  for (const auto& [text, expected] : arms) {
    ASSERT_OK_AND_ASSIGN(const StudyArm arm, ParseStudyArm(text));
    EXPECT_EQ(arm.policy, expected.policy) << text;
    EXPECT_DOUBLE_EQ(arm.share, expected.share) << text;
    EXPECT_DOUBLE_EQ(arm.shared, expected.shared) << text;
    EXPECT_EQ(arm.min_run, expected.min_run) << text;
  }
}

TEST(ParseStudyArmTest, RefusesWhatIsNoArmAndSaysWhatIs) {
  for (const char* text : {"",
                           "some:15",
                           "full",
                           "full:15",
                           "none:15",
                           "head",
                           "head:",
                           "head:0",
                           "head:100",
                           "head:-1",
                           "head:nan",
                           "head:inf",
                           "head:15x",
                           "head:15%",
                           "head:15/",
                           "head:15/0",
                           "head:15/1025",
                           "head:15/x",
                           "head:15/1x",
                           "none@",
                           "none@0",
                           "none@100",
                           "none@nan",
                           "none@5x",
                           "none@50@50",
                           "sensitivity:15@50",
                           ":15",
                           "@50",
                           "/1"}) {
    const Status status = ParseStudyArm(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(status.message(), HasSubstr("sensitivity:15"));
  }
}

}  // namespace
}  // namespace nexus::calibrate
