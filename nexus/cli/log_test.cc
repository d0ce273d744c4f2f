#include "nexus/cli/log.h"

#include "gmock/gmock.h"

namespace nexus::cli {
namespace {

constexpr std::string_view kTime = "2026-01-31T12:00:00.000Z";

TEST(LogTest, LevelsHaveNamesBothWays) {
  for (const LogLevel level :
       {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    EXPECT_EQ(ParseLogLevel(LogLevelName(level)), level);
  }
  EXPECT_EQ(ParseLogLevel("loud"), std::nullopt);
}

TEST(LogTest, AJsonLineIsOneObjectWithTheFieldsBehind) {
  EXPECT_EQ(FormatLogLine(true, LogLevel::kWarn, "two\nlines \"here\"",
                          {{"port", 8080}}, kTime),
            R"({"time":"2026-01-31T12:00:00.000Z","level":"warn",)"
            R"("message":"two\nlines \"here\"","port":8080})"
            "\n");
}

TEST(LogTest, WhatIsNotUtf8StillMakesALine) {
  const std::string line =
      FormatLogLine(true, LogLevel::kInfo, "\xff", Json::object(), kTime);
  EXPECT_TRUE(ParseJson(line, "line").ok()) << line;
}

TEST(LogTest, TextCannotDriveTheTerminal) {
  EXPECT_EQ(
      FormatLogLine(false, LogLevel::kInfo, "a\x1b[2Jb", Json::object(), kTime)
          .find('\x1b'),
      std::string::npos);
}

TEST(LogTest, LinesUnderTheLevelAreLeftOut) {
  testing::internal::CaptureStderr();
  ConfigureLog({.level = LogLevel::kWarn});
  Log(LogLevel::kInfo, "quiet");
  Log(LogLevel::kWarn, "loud");
  ConfigureLog({});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "nexus: loud\n");
}

}  // namespace
}  // namespace nexus::cli
