// What an error of the remote's is allowed to tell.
#include <mutex>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/net/testing/http_test_server.h"
#include "nexus/remote/upstream.h"

namespace nexus::remote {
namespace {

using net::TestRequest;
using net::TestResponse;
using net::TestWriter;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kMaxTold = 1000;

TestResponse Answer(int status, std::string body,
                    std::string content_type = "application/json") {
  TestResponse response;
  response.status = status;
  response.body = std::move(body);
  response.content_type = std::move(content_type);
  return response;
}

TestResponse Event(const std::string& data) {
  TestResponse response;
  response.content_type = "text/event-stream";
  response.stream = [data](const TestWriter& write) {
    write("data: " + data + "\n\n");
  };
  return response;
}

class UpstreamTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<std::string> texts = {server_.Url("")};
    ASSERT_OK_AND_ASSIGN(const auto urls, ParseBackendUrls(texts));
    UpstreamOptions options;
    options.api_key = "a secret";
    ASSERT_OK_AND_ASSIGN(upstream_, Upstream::Create(urls[0], options));
  }

  RemoteError ErrorOf(TestResponse answer, bool is_stream) {
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answer);
    }
    Attempt attempt;
    attempt.body = "{}";
    attempt.is_stream = is_stream;
    attempt.timeout = std::chrono::seconds(60);
    attempt.on_chunk = [](Json&&) { return true; };
    Json whole;
    auto error = upstream_->Complete(attempt, &whole);
    EXPECT_TRUE(error.has_value());
    return error.value_or(RemoteError());
  }

  std::mutex mutex_;
  TestResponse answer_;
  net::HttpTestServer server_{[this](const TestRequest&) {
    const std::lock_guard lock(mutex_);
    return answer_;
  }};
  std::unique_ptr<Upstream> upstream_;
};

// Wherever a text is cut: the parser quotes 200 bytes, and 1,000 are told.
TEST_F(UpstreamTest, TellsNoPieceOfTheKey) {
  std::vector<size_t> fills;
  for (size_t fill = 40; fill < 210; fill += 3) fills.push_back(fill);
  for (size_t fill = 850; fill < 1010; fill += 3) fills.push_back(fill);
  for (const size_t fill : fills) {
    const std::string said = std::string(fill, 'x') + "a secret" + "tail";
    const std::string error = R"({"error": {"message": ")" + said +
                              R"(", "code": ")" + said + R"("}})";
    const std::string unended = R"({"choices": ")" + said;
    const std::pair<bool, TestResponse> cases[] = {
        {false, Answer(400, error)},
        {false, Answer(200, error)},
        {false, Answer(200, unended)},
        {false, Answer(200, "{}", "text/" + said)},
        {true, Answer(400, error)},
        {true, Event(error)},
        {true, Event(unended)},
        {true, Answer(200, "{}", "text/" + said)}};
    for (const auto& [is_stream, answer] : cases) {
      const RemoteError told = ErrorOf(answer, is_stream);
      for (const std::string& text : {told.message, told.code}) {
        EXPECT_LE(text.size(), kMaxTold);
        // Its first letters; only 'x' stands before them.
        EXPECT_THAT(text + "|", Not(HasSubstr("xa ")));
        EXPECT_THAT(text + "|", Not(HasSubstr("xa|")));
      }
    }
  }
}

TEST_F(UpstreamTest, CutsBetweenCharacters) {
  for (size_t fill = 0; fill < 4; ++fill) {
    std::string said(fill, 'x');
    for (int i = 0; i < 600; ++i) said += "\xF0\x9F\x94\x91";
    const RemoteError told = ErrorOf(
        Answer(400, R"({"error": {"message": ")" + said + R"("}})"), false);
    EXPECT_GT(told.message.size(), kMaxTold - 4);
    EXPECT_LE(told.message.size(), kMaxTold);
    // A character in halves would be replaced.
    EXPECT_EQ(Json::parse(DumpJson(told.message)), Json(told.message));
  }
}

TEST_F(UpstreamTest, SaysWhereAnAnswerIsNoJson) {
  EXPECT_THAT(ErrorOf(Answer(200, R"({"choices": )"), false).message,
              HasSubstr("answer: JSON at byte 12"));
  EXPECT_THAT(ErrorOf(Event("a secret"), true).message,
              HasSubstr("event of the stream: "));
}

}  // namespace
}  // namespace nexus::remote
