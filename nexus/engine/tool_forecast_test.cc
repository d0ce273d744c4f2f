#include "nexus/engine/tool_forecast.h"

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::engine {
namespace {

TEST(ToolForecastTest, GuessesTheSameToolBeforeItHasSeenAny) {
  EXPECT_EQ(ToolForecast().Next("fs/read"), "fs/read");
}

TEST(ToolForecastTest, FollowsTheMostFrequentPair) {
  ToolForecast forecast;
  forecast.Note("fs/list", "fs/read");
  forecast.Note("fs/list", "fs/write");
  forecast.Note("fs/list", "fs/read");
  EXPECT_EQ(forecast.Next("fs/list"), "fs/read");
  EXPECT_EQ(forecast.Next("fs/read"), "fs/read");
}

TEST(ToolForecastTest, TiesAreStable) {
  ToolForecast a;
  a.Note("x", "b");
  a.Note("x", "a");
  ToolForecast b;
  b.Note("x", "a");
  b.Note("x", "b");
  EXPECT_EQ(a.Next("x"), b.Next("x"));
}

TEST(ToolForecastTest, ComesBackFromJsonAndRefusesDamage) {
  ToolForecast forecast;
  forecast.Note("x", "y");
  ASSERT_OK_AND_ASSIGN(const ToolForecast back,
                       ToolForecast::FromJson(forecast.ToJson(), "forecast"));
  EXPECT_EQ(back.Next("x"), "y");
  for (const char* text : {"[]", "{\"x\": 1}", "{\"x\": {\"y\": -1}}",
                           "{\"x\": {\"y\": \"z\"}}"}) {
    EXPECT_EQ(
        ToolForecast::FromJson(Json::parse(text), "forecast").status().code(),
        StatusCode::kCorruption)
        << text;
  }
}

}  // namespace
}  // namespace nexus::engine
