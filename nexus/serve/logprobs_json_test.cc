#include "nexus/serve/logprobs_json.h"

#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace nexus::serve {
namespace {

std::string TextOf(llm::Token token) {
  // Half of a character, as tokens of bytes are.
  return token == 1 ? "\xc3" : token == 2 ? "b" : "a";
}

TEST(LogprobsJsonTest, HasAnEntryForEachToken) {
  const std::vector<llm::LogprobRow> rows = {
      {{0, -0.25}, {{0, -0.25}, {2, -1.5}}}, {{2, -2.0}, {}}};
  const Json json = LogprobsJson(rows, TextOf);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[0]["token"], "a");
  EXPECT_EQ(json[0]["logprob"], -0.25);
  EXPECT_EQ(json[0]["bytes"], Json::array({97}));
  ASSERT_EQ(json[0]["top_logprobs"].size(), 2U);
  EXPECT_EQ(json[0]["top_logprobs"][1]["token"], "b");
  EXPECT_EQ(json[1]["top_logprobs"], Json::array());
}

TEST(LogprobsJsonTest, WhatJsonCannotSayIsSaidAnotherWay) {
  const double never = -std::numeric_limits<double>::infinity();
  const std::vector<llm::LogprobRow> rows = {{{1, never}, {}}};
  const Json json = LogprobsJson(rows, TextOf);
  EXPECT_EQ(json[0]["logprob"], -9999.0);
  EXPECT_EQ(json[0]["bytes"], Json::array({0xc3}));
  const Json read = Json::parse(DumpJson(json));
  EXPECT_EQ(read[0]["token"], "\xef\xbf\xbd");
}

}  // namespace
}  // namespace nexus::serve
