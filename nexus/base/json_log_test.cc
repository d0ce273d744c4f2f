#include "nexus/base/json_log.h"

#include "gmock/gmock.h"

#include "nexus/base/fault_file_system.h"
#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using ::testing::HasSubstr;

const Json kIdentity = {{"model", "a"}, {"depth", 3}};

class JsonLogTest : public ::testing::Test {
 protected:
  Result<JsonLog> Open(const Json& identity = kIdentity) {
    return JsonLog::Open(fs_, path_, identity, "study");
  }

  ScopedTempDir dir_;
  FaultFileSystem fs_;
  const std::string path_ = dir_.File("trials.jsonl");
};

TEST_F(JsonLogTest, RowsComeBackInOrder) {
  {
    ASSERT_OK_AND_ASSIGN(JsonLog log, Open());
    EXPECT_TRUE(log.rows().empty());
    ASSERT_OK(log.Append({{"key", "x"}}));
    ASSERT_OK(log.Append({{"key", "y"}}));
  }
  ASSERT_OK_AND_ASSIGN(JsonLog log, Open());
  ASSERT_EQ(log.rows().size(), 2U);
  EXPECT_EQ(log.rows()[0].json["key"], "x");
  EXPECT_EQ(log.rows()[1].source, path_ + ":3");
  ASSERT_OK(log.Append({{"key", "z"}}));
  ASSERT_OK_AND_ASSIGN(const JsonLog again, Open());
  EXPECT_EQ(again.rows().size(), 3U);
}

TEST_F(JsonLogTest, AnotherStudyIsRefusedWithTheFieldThatDiffers) {
  {
    ASSERT_OK_AND_ASSIGN(JsonLog log, Open());
    ASSERT_OK(log.Append(1));
  }
  const auto other = Open({{"model", "a"}, {"depth", 4}});
  ASSERT_EQ(other.status().code(), StatusCode::kIncompatible);
  EXPECT_THAT(other.status().message(), HasSubstr("another study"));
  EXPECT_THAT(other.status().message(),
              HasSubstr("'depth' is 3 there and 4 here"));
  const auto more = Open({{"model", "a"}, {"seed", 1}});
  EXPECT_THAT(more.status().message(),
              HasSubstr("'seed' is missing there and 1 here"));
}

TEST_F(JsonLogTest, AReaderMayAskForLessThanTheFileSays) {
  {
    ASSERT_OK_AND_ASSIGN(JsonLog log, Open());
    ASSERT_OK(log.Append(1));
  }
  ASSERT_OK_AND_ASSIGN(const JsonLog log, Open({{"model", "a"}}));
  EXPECT_EQ(log.identity(), kIdentity);
}

TEST_F(JsonLogTest, ATornLastLineIsMeasuredAgain) {
  const std::string whole = DumpJson(kIdentity) + "\n{\"key\":\"x\"}\n";
  const std::string last = "{\"key\":\"y\"}";
  for (size_t length = 0; length <= last.size(); ++length) {
    ASSERT_OK(WriteFileAtomically(fs_, path_, whole + last.substr(0, length)));
    ASSERT_OK_AND_ASSIGN(JsonLog log, Open());
    const size_t rows = length == last.size() ? 2 : 1;
    EXPECT_EQ(log.rows().size(), rows) << length;
    ASSERT_OK(log.Append({{"key", "z"}}));
    ASSERT_OK_AND_ASSIGN(const JsonLog again, Open());
    EXPECT_EQ(again.rows().size(), rows + 1) << length;
  }
  // No log at all, rather than a torn one.
  ASSERT_OK(WriteFileAtomically(fs_, path_, "{\"model\":"));
  EXPECT_FALSE(Open().ok());
}

TEST_F(JsonLogTest, ALineThatIsntJsonIsNamed) {
  ASSERT_OK(WriteFileAtomically(fs_, path_, DumpJson(kIdentity) + "\n{\n"));
  EXPECT_THAT(Open().status().message(), HasSubstr(path_ + ":2"));
}

TEST_F(JsonLogTest, WithoutAPathNothingIsWritten) {
  ASSERT_OK_AND_ASSIGN(JsonLog log, JsonLog::Open(fs_, "", kIdentity, "study"));
  ASSERT_OK(log.Append(1));
  EXPECT_EQ(log.rows().size(), 1U);
  ASSERT_OK_AND_ASSIGN(const auto names, fs_.ListDir(dir_.File(".")));
  EXPECT_TRUE(names.empty());
}

TEST_F(JsonLogTest, AFullDiskKeepsWhatWasThere) {
  ASSERT_OK_AND_ASSIGN(JsonLog log, Open());
  ASSERT_OK(log.Append(1));
  fs_.FailNth(FaultFileSystem::Operation::kAppend, 1,
              FaultFileSystem::Fault::kShortWrite);
  EXPECT_FALSE(log.Append(2).ok());
  ASSERT_OK_AND_ASSIGN(const JsonLog back, Open());
  EXPECT_EQ(back.rows().size(), 1U);
}

}  // namespace
}  // namespace nexus
