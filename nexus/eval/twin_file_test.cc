#include "nexus/eval/twin_file.h"

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/route/testing/sample_tools.h"

namespace nexus::eval {
namespace {

using route::Tool;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

std::vector<int> Classes(const TwinLabels& labels) {
  auto index = route::ToolIndex::Build(
      {Tool("read_file", "Reads a file.", "disk"),
       Tool("send_mail", "Sends a mail.", "mail"),
       Tool("read_file", "Reads a file.", "cloud"),  // twin of the first
       Tool("read_files", "Reads files.", "disk"),
       Tool("mail", "Sends a letter.", "post")},
      nullptr);
  EXPECT_OK(index);
  return TwinClasses(**index, labels);
}

Result<TwinLabels> Read(const std::string& text) {
  const ScopedTempDir dir;
  const std::string path = dir.File("twins.jsonl");
  EXPECT_OK(WriteFileAtomically(FileSystem::Default(), path, text));
  return ReadTwinFile(path);
}

TEST(TwinFileTest, ReadsIdsAndLabelsAndSkipsTheRest) {
  ASSERT_OK_AND_ASSIGN(
      const TwinLabels labels,
      Read("{\"set\": \"a\", \"id\": \"s/x\", \"twin\": \"1\"}\n\n"
           "{\"id\": \"s/y\", \"twin\": \"1\"}\r\n"
           "{\"id\": \"s/y\", \"twin\": \"2\"}"));
  EXPECT_THAT(labels, UnorderedElementsAre(Pair("s/x", "1"), Pair("s/y", "2")));
}

TEST(TwinFileTest, ABrokenLineIsNamed) {
  for (const char* bad : {"{\"id\": \"s/x\"}", "{\"twin\": \"1\"}", "[]", "7",
                          "{\"id\": 1,", "{\"id\": 1, \"twin\": \"1\"}"}) {
    const Status status = Read(std::string("\n") + bad).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), HasSubstr("twins.jsonl:2")) << bad;
  }
  ASSERT_OK_AND_ASSIGN(const TwinLabels none, ReadTwinFile(""));
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(ReadTwinFile("/no/such/file").status().code(),
            StatusCode::kNotFound);
}

TEST(TwinFileTest, LabelsJoinWhatTheRegistryKnows) {
  const std::vector<int> known = Classes({});
  EXPECT_EQ(known[0], known[2]);
  EXPECT_NE(known[0], known[3]);
  // Through one of two twins, a label reaches the other.
  const std::vector<int> joined = Classes({{"cloud/read_file", "r"},
                                           {"disk/read_files", "r"},
                                           {"mail/send_mail", "m"},
                                           {"elsewhere/x", "m"}});
  EXPECT_EQ(joined[0], joined[2]);
  EXPECT_EQ(joined[0], joined[3]);
  EXPECT_NE(joined[1], joined[4]);
  EXPECT_NE(joined[0], joined[1]);
}

}  // namespace
}  // namespace nexus::eval
