#include "nexus/engine/compose_arm.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::engine {
namespace {

using ::testing::HasSubstr;

TEST(ParseComposeArmTest, ReadsEveryForm) {
  ASSERT_OK_AND_ASSIGN(const ComposeArm plain, ParseComposeArm("given:25"));
  EXPECT_EQ(plain.neighbours, ListNeighbours::kGiven);
  EXPECT_DOUBLE_EQ(plain.share, 0.25);
  EXPECT_FALSE(plain.depends_on_question());
  ASSERT_OK_AND_ASSIGN(const ComposeArm gold, ParseComposeArm("alone:0+gold"));
  EXPECT_TRUE(gold.decode_gold);
  ASSERT_OK_AND_ASSIGN(const ComposeArm top, ParseComposeArm("generic:5+top3"));
  EXPECT_EQ(top.decode_top, 3);
  ASSERT_OK_AND_ASSIGN(const ComposeArm exact, ParseComposeArm("exact"));
  EXPECT_TRUE(exact.is_exact);
}

TEST(ParseComposeArmTest, NamesWhatIsWrong) {
  for (const auto& [text, why] :
       {std::pair("given", "':'"), std::pair("some:3", "recipe"),
        std::pair("given:101", "percentage"), std::pair("given:", "percentage"),
        std::pair("given:-1", "percentage"),
        std::pair("given:5x", "percentage"),
        std::pair("given:5+best", "addition"), std::pair("given:5+top", "topK"),
        std::pair("given:5+top0", "topK")}) {
    const Status status = ParseComposeArm(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(why));
  }
}

}  // namespace
}  // namespace nexus::engine
