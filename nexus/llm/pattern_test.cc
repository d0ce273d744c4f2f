#include "nexus/llm/pattern.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/llm/gbnf.h"
#include "nexus/llm/grammar_matcher.h"

namespace nexus::llm {
namespace {

// A pattern of this dialect, between its anchors, is GBNF but for "(?:".
bool MatchesJsonString(const std::string& pattern, const std::string& value) {
  auto converted = ToGrammarPattern(pattern);
  NEXUS_CHECK(converted.ok());
  std::string body = converted->substr(1, converted->size() - 2);
  for (size_t at; (at = body.find("(?:")) != std::string::npos;) {
    body.replace(at, 3, "(");
  }
  auto program = ParseGbnf("root ::= \"\\\"\" " + body + " \"\\\"\"");
  NEXUS_CHECK(program.ok());
  GrammarMatcher matcher(*std::move(program));
  auto state = matcher.start();
  for (char c : DumpJson(Json(value))) {
    if (state == GrammarMatcher::kDead) return false;
    state = matcher.Step(state, static_cast<uint8_t>(c));
  }
  return state != GrammarMatcher::kDead && matcher.Accepts(state);
}

TEST(PatternTest, MatchesWhatTheExpressionMatches) {
  struct Case {
    std::string pattern;
    std::vector<std::string> good;
    std::vector<std::string> bad;
  };
  const std::vector<Case> cases = {
      {"^[a-z]+$", {"abc"}, {"", "aB", "ab1"}},
      {"^\\d{4}-\\d{2}$", {"2024-07"}, {"2024-7", "x2024-07"}},
      {"abc", {"abc", "xxabcxx"}, {"ab"}},
      {"^a|b$", {"axx", "xxb", "a"}, {"xax", "bx"}},
      {"^(foo|bar)?$", {"", "foo", "bar"}, {"foobar"}},
      {"^a\\.*$", {"a", "a..."}, {"aa.", ""}},
      {"^\\w+@\\w+\\.com$", {"me@host.com"}, {"me@hostxcom", "@host.com"}},
      {"^\"$", {"\""}, {"", "x"}},
      {"^\\\\$", {"\\"}, {"/"}},
      {"^a\\nb$", {"a\nb"}, {"anb"}},
      {"^(?<year>[0-9]{2,3}?)$", {"12", "123"}, {"1", "1234"}},
      {"^[^/]+$", {"abc", "\xC3\xA9"}, {"a/b", ""}},
      {"^[\\w.-]+$", {"a.b-c_9"}, {"a b"}},
      {"^\\x41\\u00e9$", {"A\xC3\xA9"}, {"AE"}},
      {"^(ab){2}$", {"abab"}, {"ab", "abb"}},
  };
  for (const Case& c : cases) {
    for (const auto& value : c.good) {
      EXPECT_TRUE(MatchesJsonString(c.pattern, value)) << c.pattern << value;
    }
    for (const auto& value : c.bad) {
      EXPECT_FALSE(MatchesJsonString(c.pattern, value)) << c.pattern << value;
    }
  }
}

TEST(PatternTest, RefusesWhatAGrammarCantExpress) {
  for (const char* pattern :
       {"^(?=.*\\d).+$", "(?!x)", "(?<=a)b", "(a)\\1", "\\bword\\b", "a^b",
        "a$b", "^(", "^)", "[a", "*a", "a**", "a{2", "a{20000}", "a\\", "[]",
        "\\p{L}", "[\"]", "[z-a]"}) {
    const auto result = ToGrammarPattern(pattern);
    EXPECT_EQ(result.status().code(), StatusCode::kUnimplemented) << pattern;
  }
}

TEST(PatternTest, DeepAndLongPatternsAreRefusedQuickly) {
  EXPECT_FALSE(ToGrammarPattern(std::string(3000, '(')).ok());
  EXPECT_FALSE(ToGrammarPattern(std::string(1 << 20, 'a')).ok());
}

}  // namespace
}  // namespace nexus::llm
