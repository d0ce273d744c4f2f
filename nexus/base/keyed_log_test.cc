#include "nexus/base/keyed_log.h"

#include <optional>

#include "gmock/gmock.h"

#include "nexus/base/fault_file_system.h"
#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using ::testing::HasSubstr;

struct Weight {
  std::string name;
  int grams = 0;
};

struct WeightCodec {
  static Json ToJson(const Weight& weight) {
    return {{"name", weight.name}, {"grams", weight.grams}};
  }
  static Result<Weight> FromJson(const Json& json, std::string_view source) {
    if (!json.is_object() || !json.contains("grams")) {
      return CorruptionError(std::string(source) + ": no weight");
    }
    return Weight{json["name"].get<std::string>(), json["grams"].get<int>()};
  }
  static std::string KeyOf(const Weight& weight) { return weight.name; }
};

using WeightLog = KeyedLog<Weight, WeightCodec>;

class KeyedLogTest : public ::testing::Test {
 protected:
  Result<WeightLog> Open() {
    return WeightLog::Open(fs_, path_, {{"scale", 1}}, "weighing");
  }

  ScopedTempDir dir_;
  FaultFileSystem fs_;
  const std::string path_ = dir_.File("weights.jsonl");
};

TEST_F(KeyedLogTest, TheLaterOfTwoTrialsCounts) {
  {
    ASSERT_OK_AND_ASSIGN(WeightLog log, Open());
    EXPECT_EQ(log.Find("a"), nullptr);
    ASSERT_OK(log.Append({"a", 1}));
    ASSERT_OK(log.Append({"b", 2}));
    ASSERT_OK(log.Append({"a", 3}));
    EXPECT_EQ(log.Find("a")->grams, 3);
  }
  ASSERT_OK_AND_ASSIGN(const WeightLog log, Open());
  EXPECT_EQ(log.trials().size(), 2U);
  EXPECT_EQ(log.Find("a")->grams, 3);
  EXPECT_EQ(log.identity()["scale"], 1);
}

TEST_F(KeyedLogTest, ARowThatIsNoTrialIsNamed) {
  ASSERT_OK(
      WriteFileAtomically(fs_, path_, "{\"scale\":1}\n{\"name\":\"a\"}\n"));
  const Status status = Open().status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_THAT(status.message(), HasSubstr(path_ + ":2"));
}

TEST_F(KeyedLogTest, WhatTheDiskDidntTakeIsNotThere) {
  ASSERT_OK_AND_ASSIGN(WeightLog log, Open());
  fs_.FailNth(FaultFileSystem::Operation::kAppend, 1,
              FaultFileSystem::Fault::kShortWrite);
  EXPECT_FALSE(log.Append({"a", 1}).ok());
  EXPECT_EQ(log.Find("a"), nullptr);
}

}  // namespace
}  // namespace nexus
