#include "nexus/net/http_client.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/clock.h"
#include "nexus/base/test_util.h"
#include "nexus/net/testing/http_test_server.h"

namespace nexus::net {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using Method = HttpRequest::Method;

std::unique_ptr<HttpClient> ClientFor(const std::string& url,
                                      const HttpClientOptions& options = {}) {
  auto client = HttpClient::Create(url, options);
  NEXUS_CHECK(client.ok());
  return std::move(client).value();
}

TestResponse Echo(const TestRequest& request) {
  return {.headers = {{"X-Seen", request.Header("x-mine")}},
          .body = request.method + " " + request.path + " " + request.body};
}

// Sends pieces until the client goes.
TestResponse Endless(const std::string& piece, int interval_ms) {
  return {.stream = [piece, interval_ms](const TestWriter& write) {
    while (write(piece)) {
      std::this_thread::sleep_for(milliseconds(interval_ms));
    }
  }};
}

TEST(HttpUrlTest, ReadsEveryPart) {
  ASSERT_OK_AND_ASSIGN(const HttpUrl url,
                       ParseHttpUrl("HTTPS://[::1]:8443/a/b?c=d#e"));
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.path, "/a/b?c=d");
}

TEST(HttpUrlTest, FillsInPortAndPath) {
  ASSERT_OK_AND_ASSIGN(const HttpUrl plain, ParseHttpUrl("http://a.b"));
  EXPECT_EQ(plain.port, 80);
  EXPECT_EQ(plain.path, "/");
  ASSERT_OK_AND_ASSIGN(const HttpUrl query, ParseHttpUrl("https://a.b?x"));
  EXPECT_EQ(query.port, 443);
  EXPECT_EQ(query.path, "/?x");
}

TEST(HttpUrlTest, RefusesWhatIsNoHttpUrl) {
  for (const char* url :
       {"", "localhost:80", "ftp://a", "http://", "http://:80",
        "http://a:", "http://a:0", "http://a:65536", "http://a:99999999999",
        "http://a:8x", "http://u:p@a/", "http://a b/", "http://a/\r\nX: y",
        "http://[::1", "http://[::1]x", "http://[::1]:"}) {
    EXPECT_EQ(ParseHttpUrl(url).status().code(), StatusCode::kInvalidArgument)
        << url;
  }
}

TEST(HttpClientTest, SendsMethodPathHeadersAndBody) {
  HttpTestServer server(Echo);
  auto client = ClientFor(server.Url("/mcp?x=1"),
                          {.headers = {{"X-Mine", "from client"}}});
  ASSERT_OK_AND_ASSIGN(
      const HttpResponse post,
      client->Send({.method = Method::kPost, .body = "hello"}));
  EXPECT_EQ(post.status, 200);
  EXPECT_EQ(post.body, "POST /mcp?x=1 hello");
  EXPECT_EQ(post.headers.find("x-seen")->second, "from client");
  ASSERT_OK_AND_ASSIGN(const HttpResponse get,
                       client->Send({.path = "/other",
                                     .headers = {{"x-mine", "from request"}}}));
  EXPECT_EQ(get.body, "GET /other ");
  EXPECT_EQ(get.headers.find("X-SEEN")->second, "from request");
  ASSERT_OK_AND_ASSIGN(const HttpResponse removed,
                       client->Send({.method = Method::kDelete}));
  EXPECT_EQ(removed.body, "DELETE /mcp?x=1 ");
}

TEST(HttpClientTest, ReturnsErrorStatusesAsAnswers) {
  HttpTestServer server([](const TestRequest&) {
    return TestResponse{.status = 503, .body = "busy"};
  });
  ASSERT_OK_AND_ASSIGN(const HttpResponse response,
                       ClientFor(server.Url())->Send({}));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.body, "busy");
}

TEST(HttpClientTest, BringsAnswersThatHaveNoBody) {
  std::atomic<int> status{0};
  // Some servers send a body all the same, which mustn't be read for the next
  // answer.
  HttpTestServer server([&](const TestRequest&) {
    return TestResponse{.status = status,
                        .headers = {{"X-Seen", "yes"}},
                        .body = status == 204 || status == 304 ? "stray" : ""};
  });
  auto client = ClientFor(server.Url());
  for (const int wanted : {200, 202, 204, 205, 304, 404}) {
    for (const Method method : {Method::kGet, Method::kPost, Method::kDelete}) {
      status = wanted;
      int told = 0;
      ASSERT_OK_AND_ASSIGN(
          const HttpResponse response,
          client->Send({.method = method,
                        .on_headers = [&](int code, const HttpHeaders&) {
                          told = code;
                          return true;
                        }}));
      EXPECT_EQ(response.status, wanted);
      EXPECT_EQ(told, wanted);
      EXPECT_EQ(response.headers.count("x-seen"), 1u) << wanted;
      EXPECT_EQ(response.body, "");
    }
    EXPECT_EQ(client
                  ->Send({.on_headers =
                              [](int, const HttpHeaders&) { return false; }})
                  .status()
                  .code(),
              StatusCode::kCancelled)
        << wanted;
  }
}

TEST(HttpClientTest, TakesNoInterimAnswerForTheAnswer) {
  for (const int status : {101, 102, 103}) {
    HttpTestServer server([&](const TestRequest&) {
      return TestResponse{.status = status, .body = "HTTP/1.1 200 OK"};
    });
    int told = 0;
    const auto response =
        ClientFor(server.Url())
            ->Send({.on_headers = [&](int code, const HttpHeaders&) {
              told = code;
              return true;
            }});
    EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(response.status().message(), HasSubstr(std::to_string(status)));
    EXPECT_EQ(told, 0);
  }
}

TEST(HttpClientTest, DoesNotFollowRedirects) {
  HttpTestServer server([](const TestRequest&) {
    return TestResponse{.status = 302, .headers = {{"Location", "/next"}}};
  });
  ASSERT_OK_AND_ASSIGN(const HttpResponse response,
                       ClientFor(server.Url())->Send({}));
  EXPECT_EQ(response.status, 302);
}

TEST(HttpClientTest, StreamsPiecesAsTheyCome) {
  // The second piece is sent only after the first was seen.
  std::atomic<bool> first_seen{false};
  HttpTestServer server([&](const TestRequest&) {
    return TestResponse{.stream = [&](const TestWriter& write) {
      write("one");
      while (!first_seen) std::this_thread::sleep_for(milliseconds(1));
      write("two");
    }};
  });
  std::string seen;
  int status = 0;
  ASSERT_OK_AND_ASSIGN(const HttpResponse response,
                       ClientFor(server.Url())
                           ->Send({.timeout_ms = 10000,
                                   .on_headers =
                                       [&](int code, const HttpHeaders&) {
                                         status = code;
                                         return true;
                                       },
                                   .on_data =
                                       [&](std::string_view piece) {
                                         seen += piece;
                                         first_seen = true;
                                         return true;
                                       }}));
  EXPECT_EQ(status, 200);
  EXPECT_EQ(seen, "onetwo");
  EXPECT_EQ(response.body, "");
}

TEST(HttpClientTest, SaysThatNobodyListens) {
  std::string url;
  {
    HttpTestServer server(Echo);
    url = server.Url("/mcp");
  }
  const auto response = ClientFor(url)->Send({});
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(response.status().message(), HasSubstr(url));
}

TEST(HttpClientTest, BoundsTheBody) {
  HttpTestServer server(
      [](const TestRequest&) { return Endless(std::string(1000, 'x'), 0); });
  const auto response =
      ClientFor(server.Url())->Send({.max_body_bytes = 100000});
  EXPECT_EQ(response.status().code(), StatusCode::kResourceExhausted);
}

TEST(HttpClientTest, EndsATrickleAtTheDeadline) {
  HttpTestServer server([](const TestRequest&) { return Endless("x", 5); });
  const auto start = Clock::Monotonic().Now();
  const auto response = ClientFor(server.Url())->Send({.timeout_ms = 200});
  const double elapsed_ms = Milliseconds(Clock::Monotonic().Now() - start);
  EXPECT_EQ(response.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_LT(elapsed_ms, 3000);
}

TEST(HttpClientTest, CancelsWhileTheServerIsSilent) {
  HttpTestServer server([&](const TestRequest&) {
    return TestResponse{.stream = [](const TestWriter& write) {
      write("x");
      for (int i = 0; i < 300; ++i) {
        std::this_thread::sleep_for(milliseconds(10));
        if (i % 20 == 0 && !write("")) return;
      }
    }};
  });
  std::atomic<bool> cancel{false};
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(100));
    cancel = true;
  });
  const auto start = Clock::Monotonic().Now();
  const auto response =
      ClientFor(server.Url())->Send({.timeout_ms = 20000, .should_cancel = [&] {
                                       return cancel.load();
                                     }});
  const double elapsed_ms = Milliseconds(Clock::Monotonic().Now() - start);
  canceller.join();
  EXPECT_EQ(response.status().code(), StatusCode::kCancelled);
  EXPECT_LT(elapsed_ms, 2000);
}

TEST(HttpClientTest, StopsWhenACallbackSaysSo) {
  HttpTestServer server([](const TestRequest&) { return Endless("x", 1); });
  auto client = ClientFor(server.Url());
  EXPECT_EQ(client->Send({.on_data = [](std::string_view) { return false; }})
                .status()
                .code(),
            StatusCode::kCancelled);
  EXPECT_EQ(
      client
          ->Send({.on_headers = [](int, const HttpHeaders&) { return false; }})
          .status()
          .code(),
      StatusCode::kCancelled);
}

TEST(HttpClientTest, ReportsAConnectionCutInTheMiddle) {
  HttpTestServer server([](const TestRequest&) {
    return TestResponse{
        .stream = [](const TestWriter& write) { write("half"); },
        .abort_after_stream = true};
  });
  const auto response = ClientFor(server.Url())->Send({});
  EXPECT_EQ(response.status().code(), StatusCode::kUnavailable);
}

TEST(HttpClientTest, RefusesHeadersThatWouldAddOthers) {
  HttpTestServer server(Echo);
  EXPECT_EQ(ClientFor(server.Url())
                ->Send({.headers = {{"X-A", "b\r\nX-C: d"}}})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(HttpClient::Create(server.Url(), {.headers = {{"X A", "b"}}})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST(HttpClientTest, SendsFromManyThreads) {
  HttpTestServer server(Echo);
  auto client = ClientFor(server.Url("/p"));
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const std::string body = std::to_string(t * 100 + i);
        const auto response =
            client->Send({.method = Method::kPost, .body = body});
        if (response.ok() && response->body == "POST /p " + body) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 120);
}

}  // namespace
}  // namespace nexus::net
