#include "nexus/mcp/json_rpc.h"

#include <random>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::mcp {
namespace {

using testing::HasSubstr;

// The only message of `text`, as a T.
template <typename T>
Result<T> ParseOne(std::string_view text) {
  NEXUS_ASSIGN_OR_RETURN(auto messages, ParseRpc(text, "peer"));
  if (messages.size() != 1 || !std::holds_alternative<T>(messages[0])) {
    return InternalError("another kind of message");
  }
  return std::get<T>(std::move(messages[0]));
}

TEST(JsonRpcTest, ReadsARequest) {
  ASSERT_OK_AND_ASSIGN(
      const auto request,
      ParseOne<RpcRequest>(
          R"({"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}})"));
  EXPECT_EQ(request.id, RpcId("a"));
  EXPECT_EQ(request.method, "m");
  EXPECT_EQ(request.params, Json({{"x", 1}}));
}

TEST(JsonRpcTest, ReadsANotification) {
  ASSERT_OK_AND_ASSIGN(
      const auto notification,
      ParseOne<RpcNotification>(R"({"jsonrpc":"2.0","method":"m"})"));
  EXPECT_EQ(notification.method, "m");
  EXPECT_TRUE(notification.params.is_null());
}

TEST(JsonRpcTest, ReadsAnswers) {
  ASSERT_OK_AND_ASSIGN(
      const auto good,
      ParseOne<RpcResponse>(R"({"jsonrpc":"2.0","id":7,"result":null})"));
  EXPECT_EQ(good.id, RpcId(int64_t{7}));
  EXPECT_FALSE(good.error);
  ASSERT_OK_AND_ASSIGN(
      const auto bad,
      ParseOne<RpcResponse>(
          R"({"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x",
              "data":[1]}})"));
  EXPECT_EQ(bad.id, RpcId());
  ASSERT_TRUE(bad.error);
  EXPECT_EQ(bad.error->code, -32700);
  EXPECT_EQ(bad.error->data, Json::array({1}));
}

TEST(JsonRpcTest, AcceptsAnIntegerIdWrittenAsAFloat) {
  ASSERT_OK_AND_ASSIGN(
      const auto answer,
      ParseOne<RpcResponse>(R"({"jsonrpc":"2.0","id":7.0,"result":{}})"));
  EXPECT_EQ(answer.id, RpcId(int64_t{7}));
}

TEST(JsonRpcTest, ReadsABatch) {
  ASSERT_OK_AND_ASSIGN(const auto messages,
                       ParseRpc(R"([{"jsonrpc":"2.0","method":"m"},
                   {"jsonrpc":"2.0","id":1,"result":{}}])",
                                "peer"));
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<RpcNotification>(messages[0]));
  EXPECT_TRUE(std::holds_alternative<RpcResponse>(messages[1]));
}

TEST(JsonRpcTest, RefusesWhatIsNoMessage) {
  for (const char* text : {
           "",
           "Listening on stdio",
           "42",
           "null",
           "\"text\"",
           "[]",
           "[1]",
           "{}",
           R"({"jsonrpc":"1.0","method":"m"})",
           R"({"jsonrpc":2.0,"method":"m"})",
           R"({"method":"m"})",
           R"({"jsonrpc":"2.0","method":7})",
           R"({"jsonrpc":"2.0","id":null,"method":"m"})",
           R"({"jsonrpc":"2.0","id":{},"method":"m"})",
           R"({"jsonrpc":"2.0","id":1.5,"result":{}})",
           R"({"jsonrpc":"2.0","id":99999999999999999999,"result":{}})",
           R"({"jsonrpc":"2.0","id":18446744073709551615,"result":{}})",
           R"({"jsonrpc":"2.0","method":"m","params":"p"})",
           R"({"jsonrpc":"2.0","result":{}})",
           R"({"jsonrpc":"2.0","id":1})",
           R"({"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1}})",
           R"({"jsonrpc":"2.0","id":1,"error":"text"})",
           R"({"jsonrpc":"2.0","id":1,"error":{"message":"m"}})",
           R"({"jsonrpc":"2.0","id":1,"error":{"code":"1"}})",
           "{\"jsonrpc\":\"2.0\",\"method\":\"\xFF\"}",
       }) {
    const auto parsed = ParseRpc(text, "peer");
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(parsed.status().message(), HasSubstr("peer")) << text;
  }
}

TEST(JsonRpcTest, RefusesDeepNesting) {
  const std::string deep(100000, '[');
  EXPECT_EQ(ParseRpc(deep, "peer").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(JsonRpcTest, WritesWhatItReads) {
  const RpcRequest request{
      .id = int64_t{-3}, .method = "a/b", .params = {{"k", "\n\xC3\xA9"}}};
  const std::string line = SerializeRpc(request);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  ASSERT_OK_AND_ASSIGN(const auto back, ParseOne<RpcRequest>(line));
  EXPECT_EQ(back.id, request.id);
  EXPECT_EQ(back.method, request.method);
  EXPECT_EQ(back.params, request.params);

  ASSERT_OK_AND_ASSIGN(const auto notification,
                       ParseOne<RpcNotification>(
                           SerializeRpc(RpcNotification{"n", Json::object()})));
  EXPECT_TRUE(notification.params.is_object());

  const RpcResponse failure{.id = "x",
                            .error = RpcError{.code = -1, .message = "no"}};
  ASSERT_OK_AND_ASSIGN(const auto response,
                       ParseOne<RpcResponse>(SerializeRpc(failure)));
  ASSERT_TRUE(response.error);
  EXPECT_EQ(response.error->code, -1);
  EXPECT_EQ(response.error->message, "no");
}

TEST(JsonRpcTest, ReplacesInvalidUtf8WhenWriting) {
  const std::string line = SerializeRpc(RpcNotification{"n", {{"k", "\xE9"}}});
  EXPECT_OK(ParseRpc(line, "peer"));
}

// Mutated messages either parse, and then survive a round trip, or are refused
// with a reason. Seeded, so that a failure can be run again.
TEST(JsonRpcTest, SurvivesMutation) {
  const std::string seeds[] = {
      R"({"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text"}]}})",
      R"({"jsonrpc":"2.0","id":"x","method":"m","params":{"a":[1,2.5,null]}})",
      R"([{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"error":)"
      R"({"code":-32601,"message":"no","data":{}}}])",
  };
  const std::string_view pieces[] = {
      "{",   "}",    "[",       "]",          "\"",
      ":",   ",",    "null",    "1e999",      "-",
      "\\u", "\xC3", "\"id\":", "\"error\":", "\"method\":"};
  std::mt19937 random(20260729);
  int parsed_count = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seeds[random() % 3];
    for (size_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, pieces[random() % std::size(pieces)]);
          break;
        case 3:
          text.resize(at);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
    }
    const auto parsed = ParseRpc(text, "peer");
    if (!parsed.ok()) {
      ASSERT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
      continue;
    }
    ++parsed_count;
    for (const RpcMessage& message : *parsed) {
      const std::string line =
          std::visit([](const auto& m) { return SerializeRpc(m); }, message);
      ASSERT_OK(ParseRpc(line, "peer"));
    }
  }
  EXPECT_GT(parsed_count, 500);  // the mutations aren't all fatal
}

}  // namespace
}  // namespace nexus::mcp
