// Retries, failover and bad answers, against servers that misbehave as told.
#include "nexus/remote/chat_client.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/net/testing/http_test_server.h"
#include "nexus/remote/prefix_key.h"

namespace nexus::remote {
namespace {

using net::HttpTestServer;
using net::TestRequest;
using net::TestResponse;
using net::TestWriter;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr char kAnswer[] =
    R"({"id": "x", "choices": [{"index": 0, "message": {"content": "hi"}}]})";
constexpr char kChunk[] =
    "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": "
    "\"hi\"}}]}\n\n";
constexpr char kLast[] =
    "data: {\"choices\": [{\"index\": 0, \"delta\": {}, \"finish_reason\": "
    "\"stop\"}]}\n\n";

TestResponse Answer(int status, std::string body = kAnswer) {
  TestResponse response;
  response.status = status;
  response.body = std::move(body);
  return response;
}

TestResponse Stream(std::vector<std::string> pieces, bool cut = false) {
  TestResponse response;
  response.content_type = "text/event-stream";
  response.abort_after_stream = cut;
  response.stream = [pieces = std::move(pieces)](const TestWriter& write) {
    for (const std::string& piece : pieces) {
      if (!write(piece)) return;
    }
  };
  return response;
}

// A server that gives its answers one after the other, the last one for ever.
class Scripted {
 public:
  explicit Scripted(std::vector<TestResponse> answers)
      : answers_(std::move(answers)),
        server_([this](const TestRequest& request) {
          authorization_ = request.Header("Authorization");
          const size_t place = count_++;
          return answers_[std::min(place, answers_.size() - 1)];
        }) {}

  std::string Url() const { return server_.Url(""); }
  size_t count() const { return count_; }
  const std::string& authorization() const { return authorization_; }

 private:
  const std::vector<TestResponse> answers_;
  std::atomic<size_t> count_{0};
  std::string authorization_;
  HttpTestServer server_;
};

class ChatClientTest : public testing::Test {
 protected:
  void Start(const std::vector<std::string>& texts) {
    ASSERT_OK_AND_ASSIGN(const auto urls, ParseBackendUrls(texts));
    BackendPoolOptions options;
    options.upstream.api_key = "a secret";
    options.probe_interval = milliseconds(0);
    // No trial while a test runs, however slow the machine.
    options.replicas.circuit.open_for = std::chrono::hours(1);
    options.replicas.circuit.longest_open = std::chrono::hours(1);
    ASSERT_OK_AND_ASSIGN(pool_, BackendPool::Create(urls, options));
    ChatClientOptions client;
    client.max_attempts = 3;
    client.silence = milliseconds(300);
    client.sleep = [this](milliseconds pause) {
      pauses_.push_back(pause);
      return !leave_in_pause_;
    };
    client_ = std::make_unique<ChatClient>(pool_.get(), client);
  }

  ChatReply Send(bool is_stream = false, uint64_t key = 1) {
    ChatCall call;
    call.body = R"({"messages": []})";
    call.key = key;
    call.is_stream = is_stream;
    call.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    call.on_chunk = [this](Json&& chunk) {
      chunks_.push_back(std::move(chunk));
      return chunks_.size() < reader_leaves_after_;
    };
    return client_->Send(call);
  }

  std::unique_ptr<BackendPool> pool_;
  std::unique_ptr<ChatClient> client_;
  std::vector<milliseconds> pauses_;
  std::vector<Json> chunks_;
  size_t reader_leaves_after_ = 1000;
  bool leave_in_pause_ = false;
};

TEST_F(ChatClientTest, BringsAWholeAnswerAndSendsTheKey) {
  Scripted server({Answer(200)});
  Start({server.Url()});
  const ChatReply reply = Send();
  ASSERT_FALSE(reply.error.has_value()) << reply.error->message;
  EXPECT_EQ(reply.whole["choices"][0]["message"]["content"], "hi");
  EXPECT_EQ(server.authorization(), "Bearer a secret");
  EXPECT_EQ(reply.attempts, 1);
}

TEST_F(ChatClientTest, BringsChunksAsTheyCome) {
  // Cut where no event ends.
  Scripted server(
      {Stream({std::string(kChunk).substr(0, 20),
               std::string(kChunk).substr(20) + kLast, "data: [DONE]\n\n"})});
  Start({server.Url()});
  EXPECT_FALSE(Send(true).error.has_value());
  ASSERT_THAT(chunks_, SizeIs(2));
  EXPECT_EQ(chunks_[0]["choices"][0]["delta"]["content"], "hi");
}

TEST_F(ChatClientTest, TakesAStreamWithoutAnEndMark) {
  Scripted server({Stream({kChunk, kLast})});
  Start({server.Url()});
  EXPECT_FALSE(Send(true).error.has_value());
}

TEST_F(ChatClientTest, TriesAgainAfterErrorsThatMayGoAway) {
  for (const int status : {429, 500, 502, 503, 504}) {
    Scripted server({Answer(status, "{}"), Answer(200)});
    Start({server.Url()});
    if (status == 429) {
      // Left alone for a moment, whatever it said.
      EXPECT_THAT(Send().attempts, Ge(1));
      EXPECT_THAT(pauses_, Not(IsEmpty()));
      continue;
    }
    const ChatReply reply = Send();
    EXPECT_FALSE(reply.error.has_value()) << status;
    EXPECT_EQ(reply.attempts, 2) << status;
    EXPECT_EQ(server.count(), 2U);
    EXPECT_EQ(client_->retries(), 1U);
  }
}

TEST_F(ChatClientTest, GivesUpAfterSomeAttempts) {
  Scripted server({Answer(503, R"({"error": {"message": "loading"}})")});
  Start({server.Url()});
  const ChatReply reply = Send();
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->status, 503);
  EXPECT_EQ(reply.error->type, "server_error");
  EXPECT_THAT(reply.error->message, HasSubstr("loading"));
  EXPECT_THAT(reply.error->message, HasSubstr(server.Url()));
  EXPECT_EQ(server.count(), 3U);
  // Backoff between rounds: 125..250 ms, then 250..500.
  ASSERT_THAT(pauses_, SizeIs(2));
  EXPECT_GE(pauses_[0], milliseconds(125));
  EXPECT_LE(pauses_[0], milliseconds(250));
  EXPECT_GE(pauses_[1], milliseconds(250));
}

TEST_F(ChatClientTest, LeavesAlonePermanentErrors) {
  struct {
    int status;
    const char* body;
    int expected;
    const char* code;
  } cases[] = {
      {400, R"({"error": {"message": "bad", "param": "n", "code": "c"}})", 400,
       "c"},
      {404, R"({"detail": "no such model"})", 404, ""},
      {401, R"({"error": "Incorrect key: a secret"})", 502,
       "backend_refused_key"},
      {429, R"({"error": {"code": "insufficient_quota"}})", 429,
       "insufficient_quota"},
      {302, "", 502, "backend_bad_answer"}};
  for (const auto& item : cases) {
    Scripted server({Answer(item.status, item.body)});
    Start({server.Url()});
    const ChatReply reply = Send();
    ASSERT_TRUE(reply.error.has_value());
    EXPECT_EQ(reply.error->status, item.expected);
    EXPECT_EQ(reply.error->code, item.code);
    EXPECT_THAT(reply.error->message, Not(HasSubstr("a secret")));
    EXPECT_EQ(server.count(), 1U) << item.status;
  }
}

TEST_F(ChatClientTest, HonoursRetryAfter) {
  TestResponse busy = Answer(429, "{}");
  busy.headers["Retry-After"] = "7";
  Scripted server({busy, Answer(200)});
  Start({server.Url()});
  leave_in_pause_ = true;
  Send();
  // The first pause is the backoff; Take says then how long it cools down.
  leave_in_pause_ = false;
  pauses_.clear();
  const auto choice = pool_->replicas().Take(1, {});
  EXPECT_FALSE(choice.replica.has_value());
  EXPECT_GT(choice.wait, std::chrono::seconds(6));
}

TEST_F(ChatClientTest, RefusesWhenTheWaitIsOverTheDeadline) {
  TestResponse busy = Answer(429, "{}");
  busy.headers["Retry-After"] = "300";
  Scripted server({busy});
  Start({server.Url()});
  const ChatReply reply = Send();
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->status, 429);
  EXPECT_GT(reply.error->retry_after, std::chrono::seconds(290));
  EXPECT_EQ(server.count(), 1U);
}

TEST_F(ChatClientTest, FailsOverToTheNextReplicaWithoutWaiting) {
  Scripted bad({Answer(500, "{}")});
  Scripted good({Answer(200)});
  Start({bad.Url(), good.Url()});
  for (uint64_t key = 0; key < 20; ++key) {
    const ChatReply reply = Send(false, key);
    EXPECT_FALSE(reply.error.has_value());
    EXPECT_THAT(reply.replica, HasSubstr(good.Url()));
  }
  EXPECT_THAT(pauses_, IsEmpty());
  // Its circuit opened: it isn't asked each time.
  EXPECT_EQ(bad.count(), 3U);
  EXPECT_EQ(good.count(), 20U);
}

TEST_F(ChatClientTest, FailsOverFromAPortWhereNobodyListens) {
  std::string nobody;
  {
    Scripted gone({Answer(200)});
    nobody = gone.Url();
  }
  Scripted good({Answer(200)});
  Start({nobody, good.Url()});
  for (uint64_t key = 0; key < 5; ++key) {
    EXPECT_FALSE(Send(false, key).error.has_value());
  }
  Start({nobody});
  const ChatReply reply = Send();
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->status, 502);
  EXPECT_EQ(reply.error->code, "backend_unreachable");
}

TEST_F(ChatClientTest, RefusesWhatIsNoAnswer) {
  TestResponse page = Answer(200, "<html>hello</html>");
  page.content_type = "text/html";
  for (const TestResponse& bad :
       {Answer(200, "{\"choices\": "), Answer(200, "[]"), Answer(200, "{}"),
        Answer(200, R"({"choices": 1})"),
        Answer(200, R"({"error": {"message": "no"}})"), page}) {
    Scripted server({bad});
    Start({server.Url()});
    const ChatReply reply = Send();
    ASSERT_TRUE(reply.error.has_value()) << bad.body;
    EXPECT_EQ(reply.error->status, 502) << bad.body;
  }
}

TEST_F(ChatClientTest, RefusesStreamsThatAreNone) {
  TestResponse json = Answer(200);
  const std::string long_line = "data: " + std::string(2 << 20, 'x');
  for (const TestResponse& bad :
       {Stream({"data: garbage\n\n"}), Stream({"data: [1]\n\n"}),
        Stream({"data: {\"choices\": [3]}\n\n"}), Stream({"\x00\xff\xfe\n\n"}),
        Stream({}), Stream({": only a comment\n\n"}), Stream({long_line}),
        Stream({"data: {\"error\": {\"message\": \"x\", \"code\": 500}}\n\n"}),
        json}) {
    Scripted server({bad});
    Start({server.Url()});
    const ChatReply reply = Send(true);
    ASSERT_TRUE(reply.error.has_value());
    EXPECT_EQ(reply.error->status, 502) << reply.error->message;
    EXPECT_THAT(chunks_, IsEmpty());
    EXPECT_EQ(server.count(), 3U);
  }
}

TEST_F(ChatClientTest, NeverTriesAgainOnceAChunkHasGoneOut) {
  for (const TestResponse& half :
       {Stream({kChunk}), Stream({kChunk}, /*cut=*/true),
        Stream({kChunk, "data: garbage\n\n"})}) {
    Scripted server({half});
    Start({server.Url()});
    chunks_.clear();
    const ChatReply reply = Send(true);
    ASSERT_TRUE(reply.error.has_value());
    EXPECT_EQ(reply.error->status, 502);
    EXPECT_THAT(chunks_, SizeIs(1));
    EXPECT_EQ(server.count(), 1U);
  }
}

TEST_F(ChatClientTest, TriesAgainAStreamThatFailedBeforeItsFirstChunk) {
  Scripted server(
      {Stream({}, /*cut=*/true), Stream({kChunk, kLast, "data: [DONE]\n\n"})});
  Start({server.Url()});
  EXPECT_FALSE(Send(true).error.has_value());
  EXPECT_THAT(chunks_, SizeIs(2));
}

TEST_F(ChatClientTest, EndsAStreamThatFallsSilent) {
  TestResponse silent;
  silent.content_type = "text/event-stream";
  silent.stream = [](const TestWriter& write) {
    write(kChunk);
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(milliseconds(20));
    }
  };
  Scripted server({silent});
  Start({server.Url()});
  const ChatReply reply = Send(true);
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->status, 504);
  EXPECT_EQ(reply.error->code, "backend_timeout");
}

TEST_F(ChatClientTest, AReaderWhoLeavesEndsItAndBlamesNobody) {
  Scripted server({Stream({kChunk, kChunk, kChunk, kLast})});
  Start({server.Url()});
  reader_leaves_after_ = 1;
  const ChatReply reply = Send(true);
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->code, "cancelled");
  EXPECT_EQ(pool_->replicas().counts()[0].failures, 0U);
  EXPECT_EQ(pool_->replicas().counts()[0].in_flight, 0U);
}

TEST_F(ChatClientTest, LeavingDuringAPauseEndsIt) {
  Scripted server({Answer(500, "{}")});
  Start({server.Url()});
  leave_in_pause_ = true;
  const ChatReply reply = Send();
  ASSERT_TRUE(reply.error.has_value());
  EXPECT_EQ(reply.error->code, "cancelled");
  EXPECT_EQ(server.count(), 1U);
}

TEST(BackendPoolTest, ProbesFindOutWhoIsWellAndWhatTheyServe) {
  HttpTestServer well([](const TestRequest& request) {
    if (request.path == "/health") return Answer(404, "");
    return Answer(200, R"({"data": [{"id": "m"}, {"id": 3}, null]})");
  });
  HttpTestServer loading([](const TestRequest&) { return Answer(503, "{}"); });
  const std::vector<std::string> texts = {well.Url(""), loading.Url("")};
  ASSERT_OK_AND_ASSIGN(const auto urls, ParseBackendUrls(texts));
  ASSERT_OK_AND_ASSIGN(const auto pool, BackendPool::Create(urls, {}));
  pool->AwaitFirstProbes(std::chrono::seconds(60));
  EXPECT_THAT(pool->models(), ElementsAre("m"));
  EXPECT_TRUE(pool->replicas().counts()[0].is_well);
  EXPECT_FALSE(pool->replicas().counts()[1].is_well);
  EXPECT_EQ(pool->replicas().available(), 1U);
}

}  // namespace
}  // namespace nexus::remote
