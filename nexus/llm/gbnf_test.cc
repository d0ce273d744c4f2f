#include "nexus/llm/gbnf.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/grammar_matcher.h"

namespace nexus::llm {
namespace {

GrammarMatcher MatcherFor(const std::string& grammar) {
  auto program = ParseGbnf(grammar);
  NEXUS_CHECK(program.ok());
  return GrammarMatcher(*std::move(program));
}

GrammarMatcher::State After(GrammarMatcher& matcher, const std::string& text) {
  GrammarMatcher::State state = matcher.start();
  for (char c : text) {
    if (state == GrammarMatcher::kDead) break;
    state = matcher.Step(state, static_cast<uint8_t>(c));
  }
  return state;
}

bool Matches(const std::string& grammar, const std::string& text) {
  GrammarMatcher matcher = MatcherFor(grammar);
  const auto state = After(matcher, text);
  return state != GrammarMatcher::kDead && matcher.Accepts(state);
}

TEST(GbnfTest, MatchesLiteralsClassesAndRepetitions) {
  struct Case {
    std::string grammar;
    std::vector<std::string> good;
    std::vector<std::string> bad;
  };
  const std::vector<Case> cases = {
      {"root ::= \"abc\"", {"abc"}, {"", "ab", "abcd", "abd"}},
      {"root ::= [a-c]+", {"a", "abc"}, {"", "d", "ad"}},
      {"root ::= [^a]", {"b", "\xC3\xA9", "\xF0\x9F\x98\x80"}, {"a", "bb"}},
      {"root ::= \"x\"{2,4}", {"xx", "xxxx"}, {"x", "xxxxx"}},
      {"root ::= \"ab\"{2}", {"abab"}, {"ab", "abb", "ababab"}},
      {"root ::= \"x\"{2,}", {"xx", "xxxxxx"}, {"x"}},
      {"root ::= (\"a\" | \"b\")* \"c\"", {"c", "abac"}, {"ab", "cc"}},
      {"root ::= item (\",\" item)*\nitem ::= [0-9]",
       {"1", "1,2"},
       {"1,", ","}},
      {"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"(x", "()"}},
      {"root ::= \"\\x41\\u00e9\\n\"", {"A\xC3\xA9\n"}, {"A", "a\xC3\xA9\n"}},
      {"root ::= . .",
       {"ab",
        "\xE2\x82\xAC"
        "1"},
       {"a", "abc"}},
      {"# comment\nroot ::= \"a\" # end\n", {"a"}, {"b"}},
      {"root ::= (\n \"a\" |\n \"b\"\n)", {"a", "b"}, {"ab"}},
  };
  for (const Case& c : cases) {
    for (const auto& text : c.good) {
      EXPECT_TRUE(Matches(c.grammar, text)) << c.grammar << " / " << text;
    }
    for (const auto& text : c.bad) {
      EXPECT_FALSE(Matches(c.grammar, text)) << c.grammar << " / " << text;
    }
  }
}

TEST(GbnfTest, RefusesWhatIsNotAGrammar) {
  for (const char* text :
       {"", "root", "root ::=", "x ::= \"a\"", "root ::= y", "root ::= \"a",
        "root ::= [a", "root ::= (\"a\"", "root ::= *", "root ::= \"a\"{3,2}",
        "root ::= \"a\"{", "root ::= \"\\q\"", "root ::= [b-a]",
        "root ::= \"\xFF\"", "root ::= \"\\uD800\"",
        "root ::= \"a\"\nroot ::= \"b\"", "root ::= <[1]>", "root ::= []"}) {
    // "root ::=" alone is the empty text, which is a grammar.
    if (std::string(text) == "root ::=") {
      EXPECT_OK(ParseGbnf(text));
      continue;
    }
    EXPECT_FALSE(ParseGbnf(text).ok()) << text;
  }
}

TEST(GbnfTest, RefusesWhatNeverEnds) {
  EXPECT_EQ(ParseGbnf("root ::= \"a\" root").status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(ParseGbnf("root ::= root \"a\" | \"b\"").status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(ParseGbnf("root ::= (\"a\"*)*").status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(ParseGbnf("root ::= (\"abcdefgh\"{9000}){9000}\n").status().code(),
            StatusCode::kOk)
      << "repetition of a rule costs its count, not the product";
  EXPECT_EQ(ParseGbnf("root ::= \"a\"{9999999}").status().code(),
            StatusCode::kUnimplemented);
}

TEST(GrammarMatcherTest, KnowsTheBytesToTheEnd) {
  GrammarMatcher matcher = MatcherFor(
      "root ::= \"{\" ( \"ab\" | \"c\" ) \"}\" | list\nlist ::= \"[\" list* "
      "\"]\"");
  EXPECT_EQ(matcher.BytesToEnd(matcher.start()), 2U);
  EXPECT_EQ(matcher.BytesToEnd(After(matcher, "{")), 2U);
  EXPECT_EQ(matcher.BytesToEnd(After(matcher, "{a")), 2U);
  EXPECT_EQ(matcher.BytesToEnd(After(matcher, "[[[")), 3U);
  EXPECT_EQ(matcher.BytesToEnd(After(matcher, "[[]]")), 0U);
}

TEST(GrammarMatcherTest, AlternativesThatNeverEndAreNotTaken) {
  EXPECT_FALSE(
      Matches("root ::= \"a\" trap | \"b\"\ntrap ::= \"x\" trap", "a"));
  EXPECT_TRUE(Matches("root ::= \"a\" trap | \"b\"\ntrap ::= \"x\" trap", "b"));
  GrammarMatcher matcher =
      MatcherFor("root ::= \"a\" trap | \"b\"\ntrap ::= \"x\" trap");
  EXPECT_EQ(After(matcher, "a"), GrammarMatcher::kDead);
}

TEST(GrammarMatcherTest, CompactKeepsTheState) {
  GrammarMatcher matcher =
      MatcherFor("root ::= list\nlist ::= \"[\" (list (\",\" list)*)? \"]\"");
  auto state = After(matcher, "[[],[[");
  const size_t before = matcher.state_count();
  state = matcher.Compact(state);
  EXPECT_LT(matcher.state_count(), before);
  EXPECT_EQ(matcher.BytesToEnd(state), 3U);
  for (char c : std::string("]],[]]")) {
    state = matcher.Step(state, static_cast<uint8_t>(c));
    ASSERT_NE(state, GrammarMatcher::kDead) << c;
  }
  EXPECT_TRUE(matcher.Accepts(state));
}

TEST(GrammarMatcherTest, ACharacterLoopIsOneState) {
  GrammarMatcher matcher = MatcherFor("root ::= \"<\" [^>]* \">\"");
  const auto once = After(matcher, "<a");
  EXPECT_EQ(After(matcher, "<abcdefgh"), once);
  EXPECT_EQ(After(matcher, "<\xC3\xA9"), once);
}

}  // namespace
}  // namespace nexus::llm
