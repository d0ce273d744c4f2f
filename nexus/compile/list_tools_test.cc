#include "nexus/compile/list_tools.h"

#include <set>

#include "gmock/gmock.h"

namespace nexus::compile {
namespace {

TEST(ListToolsTest, AreToolsOfDifferentNamesAndLengths) {
  std::set<std::string> names;
  size_t shortest = SIZE_MAX;
  size_t longest = 0;
  for (const schema::ToolSchema& tool : ListTools()) {
    names.insert(tool.name);
    EXPECT_FALSE(tool.description.empty()) << tool.name;
    EXPECT_FALSE(tool.parameters["properties"].empty()) << tool.name;
    const size_t size = schema::ModelText(tool).size();
    shortest = std::min(shortest, size);
    longest = std::max(longest, size);
  }
  EXPECT_EQ(names.size(), ListToolTexts().size());
  EXPECT_LT(3 * shortest, longest);
}

TEST(ListToolsTest, SetsNameOneToFourToolsAndDiffer) {
  std::set<std::vector<int>> distinct;
  std::set<size_t> sizes;
  for (const std::vector<int>& set : ListToolSets()) {
    ASSERT_GE(set.size(), 1U);
    ASSERT_LE(set.size(), 4U);
    distinct.insert(set);
    sizes.insert(set.size());
    EXPECT_EQ(std::set<int>(set.begin(), set.end()).size(), set.size());
    for (const int tool : set) {
      EXPECT_GE(tool, 0);
      EXPECT_LT(tool, static_cast<int>(ListTools().size()));
    }
  }
  EXPECT_EQ(distinct.size(), ListToolSets().size());
  EXPECT_EQ(sizes.size(), 4U);
}

}  // namespace
}  // namespace nexus::compile
