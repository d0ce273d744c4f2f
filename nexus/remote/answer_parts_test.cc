#include "nexus/remote/answer_parts.h"

#include "gtest/gtest.h"

namespace nexus::remote {
namespace {

Json Chunk(const char* delta) {
  return Json{{"choices",
               Json::array({{{"index", 0}, {"delta", Json::parse(delta)}}})}};
}

TEST(AnswerPartsTest, PutsFragmentsTogether) {
  AnswerParts parts;
  parts.AddChunk(Chunk(R"({"role": "assistant", "content": "Let "})"));
  parts.AddChunk(Chunk(R"({"content": "me see."})"));
  parts.AddChunk(Chunk(R"({"tool_calls": [{"index": 0, "id": "a",
      "type": "function", "function": {"name": "f", "arguments": ""}}]})"));
  parts.AddChunk(Chunk(R"({"tool_calls": [
      {"index": 0, "function": {"arguments": "{\"x\""}},
      {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}}]})"));
  parts.AddChunk(Chunk(
      R"({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ": 1}"}}]})"));
  EXPECT_EQ(parts.content(), "Let me see.");
  const auto calls = parts.calls();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0].id, "a");
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments, R"({"x": 1})");
  EXPECT_EQ(calls[1].name, "g");
}

TEST(AnswerPartsTest, ReadsAWholeAnswer) {
  const auto parts = AnswerParts::OfWhole(Json::parse(R"({"choices": [
      {"index": 1, "message": {"content": "other"}},
      {"index": 0, "message": {"content": null, "tool_calls": [
        {"id": "a", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
        {"id": "b", "function": {"name": "g", "arguments": {"y": 2}}}]}}]})"));
  EXPECT_EQ(parts.content(), "");
  ASSERT_EQ(parts.calls().size(), 2U);
  EXPECT_EQ(parts.calls()[0].arguments, R"({"x": 1})");
  EXPECT_EQ(parts.calls()[1].arguments, R"({"y":2})");
}

TEST(AnswerPartsTest, TakesAnyShape) {
  for (const char* text :
       {"null", "[]", "3", R"({"choices": 1})", R"({"choices": [1, null, {}]})",
        R"({"choices": [{"delta": 1, "message": []}]})",
        R"({"choices": [{"delta": {"tool_calls": {}, "content": 3},
                         "message": {"tool_calls": "x", "content": {}}}]})",
        R"({"choices": [{"delta": {"tool_calls": [1, null, {"index": "x",
            "function": 1}, {"index": -5, "id": 3, "function": {"name": 1,
            "arguments": null}}]}, "message": {"tool_calls": [null, 7,
            {"function": []}]}}]})"}) {
    const Json body = Json::parse(text);
    AnswerParts parts;
    parts.AddChunk(body);
    HasCallFragment(body);
    for (const RemoteCall& call : AnswerParts::OfWhole(body).calls()) {
      EXPECT_EQ(call.name, "");
    }
  }
}

TEST(AnswerPartsTest, BoundsTheCallsOfAnAnswer) {
  AnswerParts parts;
  for (int i = 0; i < 1000; ++i) {
    Json chunk = Chunk(R"({"tool_calls": [{"function": {"name": "f"}}]})");
    chunk["choices"][0]["delta"]["tool_calls"][0]["index"] = i;
    parts.AddChunk(chunk);
  }
  EXPECT_EQ(parts.calls().size(), 256U);
}

TEST(AnswerPartsTest, SeesAPieceOfACall) {
  EXPECT_TRUE(HasCallFragment(Chunk(R"({"tool_calls": [{"index": 0}]})")));
  EXPECT_FALSE(HasCallFragment(Chunk(R"({"tool_calls": []})")));
  EXPECT_FALSE(HasCallFragment(Chunk(R"({"content": "tool_calls"})")));
}

}  // namespace
}  // namespace nexus::remote
