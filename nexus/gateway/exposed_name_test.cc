#include "nexus/gateway/exposed_name.h"

#include <set>

#include "gmock/gmock.h"

namespace nexus::gateway {
namespace {

TEST(ExposedNameTest, JoinsServerAndTool) {
  EXPECT_EQ(ExposedName("files", "read_file"), "files__read_file");
  EXPECT_EQ(ExposedName("a-b", "x"), "a-b__x");
}

TEST(ExposedNameTest, HashesWhatDoesntFit) {
  const std::string long_name(80, 'x');
  for (const auto& [server, name] :
       {std::pair<std::string, std::string>{"my server", "read"},
        {"files", "read/file"},
        {"files", long_name},
        {long_name, "read"},
        {"caf\xC3\xA9", "\xE2\x98\x95"},
        {"", ""},
        {"files", ""}}) {
    const std::string shown = ExposedName(server, name);
    EXPECT_LE(shown.size(), kMaxExposedNameBytes);
    EXPECT_THAT(shown, testing::MatchesRegex("[a-zA-Z0-9_-]+_[0-9a-f]{8}"));
    EXPECT_EQ(shown, ExposedName(server, name));
  }
}

TEST(ExposedNameTest, NeverGivesTwoToolsOneName) {
  std::set<std::string> names;
  size_t count = 0;
  for (const char* server : {"a", "a_", "a__b", "_a", "a__", "a b", "a.b"}) {
    for (const char* tool : {"b", "_b", "b__c", "__b", "c", "b c", "b.c"}) {
      names.insert(ExposedName(server, tool));
      ++count;
    }
  }
  EXPECT_EQ(names.size(), count);
}

TEST(ExposedNameTest, HasMoreNamesForTheSameTool) {
  EXPECT_NE(ExposedName("a", "b", 1), ExposedName("a", "b"));
  EXPECT_NE(ExposedName("a", "b", 1), ExposedName("a", "b", 2));
}

}  // namespace
}  // namespace nexus::gateway
