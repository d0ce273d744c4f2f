#include "nexus/eval/tool_effect.h"

#include "gtest/gtest.h"

#include "nexus/route/testing/sample_tools.h"

namespace nexus::eval {
namespace {

TEST(ToolEffectTest, AnnotationsDecideBeforeVerbs) {
  schema::ToolSchema tool = route::Tool("delete_draft", "");
  EXPECT_EQ(EffectOf(tool), ToolEffect::kWrites);
  tool.annotations.read_only = true;
  EXPECT_EQ(EffectOf(tool), ToolEffect::kReads);
  tool.annotations.read_only = false;
  EXPECT_EQ(EffectOf(tool), ToolEffect::kWrites);
  tool = route::Tool("get_and_wipe", "");
  tool.annotations.destructive = true;
  EXPECT_EQ(EffectOf(tool), ToolEffect::kWrites);
}

TEST(ToolEffectTest, TheFirstVerbOfTheNameDecides) {
  EXPECT_EQ(EffectOf(route::Tool("getUserOrders", "")), ToolEffect::kReads);
  EXPECT_EQ(EffectOf(route::Tool("pulls_create", "")), ToolEffect::kWrites);
  EXPECT_EQ(EffectOf(route::Tool("GET /movie", "")), ToolEffect::kReads);
  // No word of "settings" is "set".
  EXPECT_EQ(EffectOf(route::Tool("settings", "")), ToolEffect::kUnknown);
  EXPECT_EQ(EffectOf(route::Tool("weather", "Deletes.")), ToolEffect::kUnknown);
}

}  // namespace
}  // namespace nexus::eval
