#include "nexus/gateway/access_rules.h"

#include "gmock/gmock.h"

namespace nexus::gateway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(AccessRulesTest, LetsEverythingThroughByDefault) {
  EXPECT_THAT(AccessRules().Refusal("files", "read"), IsEmpty());
  EXPECT_THAT(AccessRules().Refusal(
                  schema::ToolSchema{.server = "files", .name = "write"}),
              IsEmpty());
}

TEST(AccessRulesTest, AllowsByGlob) {
  const AccessRules rules{.allow = {"files/read_*", "*/echo"}};
  EXPECT_THAT(rules.Refusal("files", "read_text"), IsEmpty());
  EXPECT_THAT(rules.Refusal("other", "echo"), IsEmpty());
  EXPECT_THAT(rules.Refusal("files", "write"), HasSubstr("--allow"));
  EXPECT_THAT(rules.Refusal("more_files", "read_text"), HasSubstr("--allow"));
}

TEST(AccessRulesTest, DenyIsStrongerThanAllow) {
  const AccessRules rules{.allow = {"files/*"}, .deny = {"*/*delete*"}};
  EXPECT_THAT(rules.Refusal("files", "read"), IsEmpty());
  EXPECT_THAT(rules.Refusal("files", "undelete_all"),
              HasSubstr("--deny '*/*delete*'"));
}

TEST(AccessRulesTest, AStarCrossesSlashes) {
  const AccessRules rules{.deny = {"files/*"}};
  EXPECT_THAT(rules.Refusal("files", "file:///etc/passwd"),
              HasSubstr("--deny"));
  EXPECT_THAT(rules.Refusal("files", "a/b"), HasSubstr("--deny"));
}

TEST(AccessRulesTest, ReadOnlyWantsTheServersWord) {
  const AccessRules rules{.read_only = true};
  schema::ToolSchema tool{.server = "files", .name = "read"};
  EXPECT_THAT(rules.Refusal(tool), HasSubstr("readOnlyHint"));
  tool.annotations.read_only = false;
  EXPECT_THAT(rules.Refusal(tool), HasSubstr("readOnlyHint"));
  tool.annotations.read_only = true;
  EXPECT_THAT(rules.Refusal(tool), IsEmpty());
}

}  // namespace
}  // namespace nexus::gateway
