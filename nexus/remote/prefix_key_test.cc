#include "nexus/remote/prefix_key.h"

#include <map>

#include "gtest/gtest.h"

namespace nexus::remote {
namespace {

const std::vector<std::string> kNames = {"http://a/v1", "http://b/v1",
                                         "http://c/v1", "http://d/v1"};

Json Chat(const char* system, const char* first, const char* second) {
  return Json{
      {"model", "m"},
      {"messages", Json::array({{{"role", "system"}, {"content", system}},
                                {{"role", "user"}, {"content", first}},
                                {{"role", "user"}, {"content", second}}})}};
}

TEST(PrefixKeyTest, IsTheSameForAllTurnsOfAConversation) {
  EXPECT_EQ(PrefixKey(Chat("s", "hello", "one")),
            PrefixKey(Chat("s", "hello", "another")));
}

TEST(PrefixKeyTest, DiffersByWhatThePromptBeginsWith) {
  const uint64_t key = PrefixKey(Chat("s", "hello", "one"));
  EXPECT_NE(key, PrefixKey(Chat("t", "hello", "one")));
  EXPECT_NE(key, PrefixKey(Chat("s", "good day", "one")));
  Json with_tools = Chat("s", "hello", "one");
  with_tools["tools"] = Json::array({1});
  EXPECT_NE(key, PrefixKey(with_tools));
}

TEST(PrefixKeyTest, TakesAnyShape) {
  for (const char* text :
       {"null", "[]", "{}", R"({"messages": 3})", R"({"messages": [1, null]})",
        R"({"messages": [{"role": ["user"]}], "tools": "x", "model": {}})"}) {
    PrefixKey(Json::parse(text));
  }
}

TEST(PrefixKeyTest, SpreadsKeysEvenly) {
  std::map<size_t, int> first;
  for (int i = 0; i < 4000; ++i) {
    ++first[RankReplicas(PrefixKey(Chat("s", std::to_string(i).c_str(), "")),
                         kNames)
                .front()];
  }
  for (size_t i = 0; i < kNames.size(); ++i) {
    EXPECT_NEAR(first[i], 1000, 150) << kNames[i];
  }
}

TEST(PrefixKeyTest, OnlyTheKeysOfALostReplicaMove) {
  std::vector<std::string> fewer(kNames.begin(), kNames.end() - 1);
  for (uint64_t key = 0; key < 1000; ++key) {
    const auto before = RankReplicas(key, kNames);
    const auto after = RankReplicas(key, fewer);
    const size_t expected =
        before[0] == kNames.size() - 1 ? before[1] : before[0];
    EXPECT_EQ(after.front(), expected);
  }
}

TEST(PrefixKeyTest, OrderOfTheNamesDoesntMatter) {
  const std::vector<std::string> reversed(kNames.rbegin(), kNames.rend());
  for (uint64_t key = 0; key < 100; ++key) {
    EXPECT_EQ(kNames[RankReplicas(key, kNames)[0]],
              reversed[RankReplicas(key, reversed)[0]]);
  }
}

TEST(LoadBoundTest, IsTheFactorTimesTheFairShare) {
  EXPECT_EQ(LoadBound(0, 4, 1.25), 1U);
  EXPECT_EQ(LoadBound(3, 4, 1.25), 2U);
  EXPECT_EQ(LoadBound(79, 4, 1.25), 25U);
  EXPECT_EQ(LoadBound(5, 0, 1.25), 0U);
  // Alone it takes everything.
  EXPECT_GE(LoadBound(100, 1, 1.25), 101U);
}

}  // namespace
}  // namespace nexus::remote
