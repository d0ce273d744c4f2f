#include "nexus/route/bm25.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/route/utf8.h"

namespace nexus::route {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SplitWordsTest, SplitsSnakeCaseAndPunctuation) {
  EXPECT_THAT(SplitWords("create_issue: a-b.c"),
              ElementsAre("create", "issue", "a", "b", "c"));
}

TEST(SplitWordsTest, SplitsCamelCase) {
  EXPECT_THAT(SplitWords("getUserName"), ElementsAre("get", "user", "name"));
  EXPECT_THAT(SplitWords("parseJSONFile"),
              ElementsAre("parse", "json", "file"));
  EXPECT_THAT(SplitWords("HTML"), ElementsAre("html"));
  EXPECT_THAT(SplitWords("ABCmouse"), ElementsAre("ab", "cmouse"));
}

TEST(SplitWordsTest, SplitsDigitsFromLetters) {
  EXPECT_THAT(SplitWords("top10 k8s"), ElementsAre("top", "10", "k", "8", "s"));
}

TEST(SplitWordsTest, KeepsAccentsAndLowersThem) {
  EXPECT_THAT(SplitWords("Créer UN Dépôt ÉLÈVE"),
              ElementsAre("créer", "un", "dépôt", "élève"));
  EXPECT_THAT(SplitWords("Погода ΑΘΗΝΑ"), ElementsAre("погода", "αθηνα"));
}

TEST(SplitWordsTest, MakesEachIdeographAWord) {
  EXPECT_THAT(SplitWords("搜索file。网"),
              ElementsAre("搜", "索", "file", "网"));
}

TEST(SplitWordsTest, ReadsKoreanInPairsOfSyllables) {
  EXPECT_THAT(SplitWords("비밀번호를 눈"),
              ElementsAre("비밀", "밀번", "번호", "호를", "눈"));
  // What is in Latin letters is a word of its own, whatever follows.
  EXPECT_THAT(SplitWords("GitHub에서 3개"),
              ElementsAre("git", "hub", "에서", "3", "개"));
}

TEST(SplitWordsTest, TakesBrokenUtf8AsASeparator) {
  EXPECT_THAT(SplitWords("ab\xFF"
                         "cd\xE6\x90"),
              ElementsAre("ab", "cd"));
  EXPECT_THAT(SplitWords("\xC0\xAF"), IsEmpty());  // overlong "/"
}

TEST(FoldCaseTest, KeepsTheLengthOfEveryCharacter) {
  for (char32_t c = 1; c < 0x3000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string upper, lower;
    AppendUtf8(c, &upper);
    AppendUtf8(FoldCase(c), &lower);
    ASSERT_EQ(upper.size(), lower.size()) << "U+" << std::hex << uint32_t{c};
    ASSERT_EQ(FoldCase(FoldCase(c)), FoldCase(c));
    const CodePoint back = DecodeUtf8(upper, 0);
    ASSERT_TRUE(back.valid);
    ASSERT_EQ(back.value, c);
  }
}

TEST(Bm25IndexTest, MatchesTheFormulaByHand) {
  // Lengths 3, 2, 1: average 2. "file" is in two of three.
  const std::vector<std::string> texts = {"read file file", "read disk",
                                          "file"};
  const std::vector<float> scores = Bm25Index(texts).Score("file");
  const double idf = std::log(1 + (3 - 2 + 0.5) / (2 + 0.5));
  const auto score = [&](double f, double length) {
    return idf * f * 1.9 / (f + 0.9 * (0.6 + 0.4 * length / 2));
  };
  EXPECT_NEAR(scores[0], score(2, 3), 1e-6);
  EXPECT_EQ(scores[1], 0);
  EXPECT_NEAR(scores[2], score(1, 1), 1e-6);
}

TEST(Bm25IndexTest, AddsTheWordsOfAQueryOnceEach) {
  const std::vector<std::string> texts = {"delete file", "send mail"};
  const Bm25Index index(texts);
  const float both = index.Score("delete file")[0];
  EXPECT_FLOAT_EQ(both, index.Score("delete")[0] + index.Score("file")[0]);
  EXPECT_EQ(index.Score("file FILE file delete"), index.Score("file delete"));
}

TEST(Bm25IndexTest, DropsFunctionWordsUnlessThereAreNoOthers) {
  const std::vector<std::string> texts = {"please send what you want",
                                          "weather"};
  const Bm25Index index(texts);
  EXPECT_EQ(index.Score("what weather do you want, please")[0], 0);
  EXPECT_GT(index.Score("what you want")[0], 0);
  Bm25Options keep;
  keep.drop_function_words = false;
  EXPECT_GT(Bm25Index(texts, keep).Score("what weather do you want, please")[0],
            0);
}

TEST(Bm25IndexTest, GivesZerosWhereNothingMatches) {
  const std::vector<std::string> texts = {"a b", "c"};
  const Bm25Index index(texts);
  EXPECT_THAT(index.Score(""), ElementsAre(0, 0));
  EXPECT_THAT(index.Score("unknown words"), Each(0));
}

TEST(Bm25IndexTest, TakesAnEmptyRegistryAndEmptyTexts) {
  EXPECT_THAT(Bm25Index({}).Score("x"), IsEmpty());
  const std::vector<std::string> texts = {"", ""};
  EXPECT_THAT(Bm25Index(texts).Score("x"), ElementsAre(0, 0));
}

TEST(Bm25IndexTest, IsTheSameFromRunToRun) {
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) {
    texts.push_back("tool" + std::to_string(i % 17) + " does thing " +
                    std::to_string(i));
  }
  EXPECT_EQ(Bm25Index(texts).Score("does thing tool 5 of 16"),
            Bm25Index(texts).Score("does thing tool 5 of 16"));
}

}  // namespace
}  // namespace nexus::route
