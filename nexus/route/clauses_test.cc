#include "nexus/route/clauses.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nexus::route {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ClausesTest, CutsWhereSomethingElseIsAsked) {
  EXPECT_THAT(Clauses("Convert 5 euros to dollars, then mail the sum to Ann."),
              ElementsAre("Convert 5 euros to dollars", "mail the sum to Ann"));
  EXPECT_THAT(
      Clauses("What is the weather in Paris? Send it to Bob please"),
      ElementsAre("What is the weather in Paris", "Send it to Bob please"));
  EXPECT_THAT(Clauses("list the open issues and THEN close the oldest one;\n"
                      "tell my team\n"),
              ElementsAre("list the open issues", "close the oldest one",
                          "tell my team"));
}

TEST(ClausesTest, KeepsWhatBelongsTogether) {
  EXPECT_THAT(Clauses("Mail Ann, Bob and Carla about the party"),
              ElementsAre("Mail Ann, Bob", "Carla about the party"));
  EXPECT_THAT(Clauses("What's the weather in Paris, France?"),
              ElementsAre("What's the weather in Paris, France"));
  EXPECT_THAT(Clauses("Please, what's the time in Rome?"),
              ElementsAre("Please, what's the time in Rome"));
  EXPECT_THAT(Clauses("Pay 1,000.50 euros to a.b@c.de"),
              ElementsAre("Pay 1,000.50 euros to a.b@c.de"));
  EXPECT_THAT(Clauses("find the sandy handle of this thenar thing"),
              ElementsAre("find the sandy handle of this thenar thing"));
}

TEST(ClausesTest, DoesNotCutQuotes) {
  EXPECT_THAT(
      Clauses("Write \"Come at once. Bring bread and wine, now\" to Ann"),
      ElementsAre("Write \"Come at once. Bring bread and wine, now\" to Ann"));
  EXPECT_THAT(
      Clauses("run `ls -l; rm the old file` in my shell, and tell me"),
      ElementsAre("run `ls -l; rm the old file` in my shell, and tell me"));
  // A quote that nobody closes is none.
  EXPECT_THAT(Clauses("a board of 5\" length, then two of them"),
              ElementsAre("a board of 5\" length", "two of them"));
}

TEST(ClausesTest, AreFew) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "do the next thing. ";
  const auto clauses = Clauses(text);
  EXPECT_EQ(clauses.size(), kMaxClauses);
  EXPECT_EQ(clauses.back().size(), 43 * 19 - 2U);
}

TEST(ClausesTest, TakesAnyBytes) {
  EXPECT_THAT(Clauses(""), IsEmpty());
  EXPECT_THAT(Clauses(" \n,.;"), ElementsAre(",."));
  EXPECT_THAT(Clauses("and"), ElementsAre("and"));
  EXPECT_THAT(
      Clauses("wie ist das Wetter in Köln\xff? sag es Änne bitte"),
      ElementsAre("wie ist das Wetter in Köln\xff", "sag es Änne bitte"));
}

}  // namespace
}  // namespace nexus::route
