#include "nexus/net/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/mutex.h"
#include "nexus/base/test_util.h"
#include "nexus/base/unique_fd.h"

namespace nexus::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;
using testing::StartsWith;
using Method = HttpRequest::Method;

std::unique_ptr<HttpServer> StartServer(const HttpServerOptions& options,
                                        HttpServer::Handler handler) {
  auto server = HttpServer::Start(options, std::move(handler));
  NEXUS_CHECK(server.ok());
  return std::move(server).value();
}

ServerResponse Echo(const ServerRequest& request) {
  return {.headers = {{"X-Seen", std::string(request.Header("x-mine"))}},
          .body = request.method + " " + request.path + " " + request.body};
}

Result<HttpResponse> Send(const HttpServer& server, HttpRequest request) {
  NEXUS_ASSIGN_OR_RETURN(auto client, HttpClient::Create(server.Url("/")));
  return client->Send(request);
}

// What no well-behaved client sends.
class RawClient {
 public:
  explicit RawClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    NEXUS_CHECK(::connect(fd_.get(), generic, sizeof address) == 0);
  }
  void Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent =
          ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // Everything up to the end of the connection, or `until`.
  std::string Read(std::string_view until = "", int limit_ms = 5000) {
    std::string all;
    const auto deadline = steady_clock::now() + milliseconds(limit_ms);
    while (until.empty() || all.find(until) == std::string::npos) {
      const auto left =
          std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      pollfd polled = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
      if (left.count() <= 0 ||
          ::poll(&polled, 1, static_cast<int>(left.count())) <= 0) {
        return all + "[timeout]";
      }
      char bytes[4096];
      const ssize_t count = ::recv(fd_.get(), bytes, sizeof bytes, 0);
      if (count <= 0) return all;
      all.append(bytes, static_cast<size_t>(count));
    }
    return all;
  }
  void Close() { fd_.Reset(); }

 private:
  UniqueFd fd_;
};

TEST(HttpServerTest, AnswersOnLoopbackByDefault) {
  const auto server = StartServer({}, Echo);
  EXPECT_THAT(server->Url(), StartsWith("http://127.0.0.1:"));
  ASSERT_OK_AND_ASSIGN(const HttpResponse response,
                       Send(*server, {.method = Method::kPost,
                                      .path = "/a%20b?c=d",
                                      .headers = {{"X-Mine", "yes"}},
                                      .body = "{}"}));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "POST /a b {}");
  EXPECT_EQ(response.headers.at("x-seen"), "yes");
}

TEST(HttpServerTest, SaysWhichPortIsTaken) {
  const auto first = StartServer({}, Echo);
  const auto second = HttpServer::Start({.port = first->port()}, Echo);
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(),
              HasSubstr(std::to_string(first->port())));
}

// A connection that moves between waiting and work is for a moment counted
// twice or not at all.
bool ComesToConnections(const HttpServer& server, size_t wanted) {
  const auto deadline = steady_clock::now() + milliseconds(5000);
  while (server.counts().connections != wanted) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

TEST(HttpServerTest, ServesManyRequestsOnOneConnection) {
  const auto server = StartServer({}, Echo);
  RawClient client(server->port());
  for (int i = 0; i < 3; ++i) {
    client.Send("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(client.Read("GET /" + std::to_string(i)),
                StartsWith("HTTP/1.1 200"));
  }
  EXPECT_TRUE(ComesToConnections(*server, 1));
}

TEST(HttpServerTest, ServesPipelinedRequestsInOrder) {
  const auto server = StartServer({}, Echo);
  RawClient client(server->port());
  client.Send(
      "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab"
      "GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string both = client.Read("GET /2 ");
  EXPECT_LT(both.find("POST /1 ab"), both.find("GET /2 "));
}

TEST(HttpServerTest, StreamsInChunks) {
  const auto server = StartServer({}, [](const ServerRequest&) {
    ServerResponse response;
    response.content_type = "text/event-stream";
    response.stream = [](const StreamWriter& write) {
      return write("data: 1\n\n") && write("data: 2\n\n");
    };
    return response;
  });
  std::vector<std::string> pieces;
  ASSERT_OK_AND_ASSIGN(const HttpResponse response,
                       Send(*server, {.on_data = [&](std::string_view bytes) {
                         pieces.emplace_back(bytes);
                         return true;
                       }}));
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream");
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  EXPECT_EQ(all, "data: 1\n\ndata: 2\n\n");
}

TEST(HttpServerTest, ReportsEachAnswerWithTheIdThatItCarries) {
  Mutex mutex;
  std::vector<AnsweredRequest> reported;
  std::string id_at_handler;
  HttpServerOptions options;
  options.bearer_token = "secret";
  options.open_paths = {"/open"};
  options.on_answered = [&](const AnsweredRequest& request) {
    MutexLock lock(mutex);
    reported.push_back(request);
  };
  auto server = StartServer(options, [&](const ServerRequest& request) {
    id_at_handler = request.id;
    ServerResponse response;
    response.stream = [](const StreamWriter& write) {
      const bool ok = write("a");
      std::this_thread::sleep_for(milliseconds(30));
      return ok && write("b");
    };
    return response;
  });
  ASSERT_OK_AND_ASSIGN(const HttpResponse streamed,
                       Send(*server, {.path = "/open?token=x"}));
  ASSERT_OK_AND_ASSIGN(const HttpResponse refused,
                       Send(*server, {.path = "/closed"}));
  RawClient client(server->port());
  client.Send("nonsense\r\n\r\n");
  EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 400"));
  server->Stop(1000);
  server.reset();

  ASSERT_EQ(reported.size(), 3U);
  // A report comes behind its answer, so a quick client's next may overtake it.
  std::sort(reported.begin(), reported.end(),
            [](const AnsweredRequest& a, const AnsweredRequest& b) {
              // They end in a number that counts up: 8 is before 10.
              return std::pair(a.id.size(), a.id) <
                     std::pair(b.id.size(), b.id);
            });
  EXPECT_EQ(reported[0].id, streamed.headers.at("x-request-id"));
  EXPECT_EQ(reported[0].id, id_at_handler);
  EXPECT_EQ(reported[0].method, "GET");
  EXPECT_EQ(reported[0].path, "/open");
  EXPECT_EQ(reported[0].peer, "127.0.0.1");
  EXPECT_EQ(reported[0].status, 200);
  // Up to the stream's last byte, not its first.
  EXPECT_GE(reported[0].duration_ms, 30);
  EXPECT_EQ(reported[1].id, refused.headers.at("x-request-id"));
  EXPECT_EQ(reported[1].path, "/closed");
  EXPECT_EQ(reported[1].status, 401);
  EXPECT_EQ(reported[2].status, 400);
  EXPECT_NE(reported[0].id, reported[1].id);
  EXPECT_NE(reported[1].id, reported[2].id);
}

TEST(HttpServerTest, NoticesThatTheClientHasGone) {
  std::atomic<bool> began{false};
  std::atomic<bool> noticed{false};
  const auto server = StartServer({}, [&](const ServerRequest& request) {
    began = true;
    const auto deadline = steady_clock::now() + milliseconds(5000);
    while (!noticed && steady_clock::now() < deadline) {
      noticed = request.is_client_gone();
      std::this_thread::sleep_for(milliseconds(5));
    }
    return ServerResponse{};
  });
  RawClient client(server->port());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (!began) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_FALSE(noticed);
  client.Close();
  server->Stop(5000);
  EXPECT_TRUE(noticed);
}

TEST(HttpServerTest, WantsTheBearerToken) {
  const auto server =
      StartServer({.bearer_token = "s3cret", .open_paths = {"/health"}}, Echo);
  const auto status = [&](const std::string& path, const std::string& auth) {
    HttpRequest request{.path = path};
    if (!auth.empty()) request.headers["Authorization"] = auth;
    const auto response = Send(*server, request);
    return response.ok() ? response->status : -1;
  };
  EXPECT_EQ(status("/v1/models", ""), 401);
  EXPECT_EQ(status("/v1/models", "Bearer s3cre"), 401);
  EXPECT_EQ(status("/v1/models", "Bearer s3cret2"), 401);
  EXPECT_EQ(status("/v1/models", "Basic s3cret"), 401);
  EXPECT_EQ(status("/v1/models", "Bearer s3cret"), 200);
  EXPECT_EQ(status("/health", ""), 200);
}

TEST(HttpServerTest, RefusesPagesOfOtherSites) {
  const auto server = StartServer({}, Echo);
  const auto status = [&](const std::string& origin) {
    const auto response = Send(
        *server, {.method = Method::kPost, .headers = {{"Origin", origin}}});
    return response.ok() ? response->status : -1;
  };
  EXPECT_EQ(status("https://evil.example"), 403);
  EXPECT_EQ(status("null"), 403);
  EXPECT_EQ(status("http://localhost:" + std::to_string(server->port())), 200);
  EXPECT_EQ(status("http://127.evil.example"), 403);
}

TEST(HttpServerTest, APageOfItsOwnHostNeedsTheTokenToBeAdmitted) {
  const auto status = [](const HttpServerOptions& options) {
    const auto server = StartServer(options, Echo);
    const auto response =
        Send(*server, {.method = Method::kPost,
                       .headers = {{"Origin", "https://nexus.example"},
                                   {"Host", "nexus.example"},
                                   {"Authorization", "Bearer s3cret"}}});
    return response.ok() ? response->status : -1;
  };
  EXPECT_EQ(status({.bearer_token = "s3cret", .own_host_pages = true}), 200);
  EXPECT_EQ(status({.bearer_token = "other", .own_host_pages = true}), 401);
  EXPECT_EQ(status({.own_host_pages = true}), 403);
  EXPECT_EQ(status({.bearer_token = "s3cret"}), 403);
}

TEST(HttpServerTest, AnAllowedOriginIsToldSoWithEveryAnswer) {
  constexpr char kApp[] = "https://app.example";
  const auto server =
      StartServer({.bearer_token = "s3cret", .allowed_origins = {kApp}}, Echo);
  const auto ask = [&](const std::string& origin, const std::string& auth) {
    auto response = Send(
        *server,
        {.method = Method::kPost,
         .headers = {{"Origin", origin}, {"Authorization", "Bearer " + auth}}});
    NEXUS_CHECK(response.ok());
    return *std::move(response);
  };
  const HttpResponse answer = ask(kApp, "s3cret");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), kApp);
  // So that the page can show what was wrong.
  const HttpResponse refused = ask(kApp, "wrong");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("access-control-allow-origin"), kApp);
  const HttpResponse foreign = ask("https://evil.example", "s3cret");
  EXPECT_EQ(foreign.status, 403);
  EXPECT_EQ(foreign.headers.count("access-control-allow-origin"), 0U);
}

TEST(HttpServerTest, AnswersPreflightsOfAllowedOriginsOnly) {
  const auto server = StartServer(
      {.bearer_token = "s3cret", .allowed_origins = {"https://app.example"}},
      Echo);
  const auto preflight = [&](const std::string& origin) {
    RawClient client(server->port());
    client.Send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: " +
                origin +
                "\r\nAccess-Control-Request-Method: POST\r\n"
                "Access-Control-Request-Headers: authorization,x-nexus\r\n"
                "Connection: close\r\n\r\n");
    return client.Read();
  };
  const std::string allowed = preflight("https://app.example");
  EXPECT_THAT(allowed, StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Origin: "
                                 "https://app.example\r\n"));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Headers: "
                                 "authorization,x-nexus\r\n"));
  EXPECT_THAT(allowed, HasSubstr("Access-Control-Allow-Methods: "));
  for (const char* origin : {"https://evil.example", "http://localhost:3000"}) {
    const std::string other = preflight(origin);
    EXPECT_THAT(other, StartsWith("HTTP/1.1 40")) << origin;
    EXPECT_THAT(other, testing::Not(HasSubstr("Access-Control"))) << origin;
  }
}

TEST(HttpServerTest, RefusesLargeBodies) {
  std::atomic<int> calls{0};
  const auto server = StartServer(
      {.max_body_bytes = 1000,
       .error_body =
           [](int status, std::string_view message) {
             return std::to_string(status) + ": " + std::string(message);
           }},
      [&](const ServerRequest& request) {
        ++calls;
        return Echo(request);
      });
  ASSERT_OK_AND_ASSIGN(
      const HttpResponse response,
      Send(*server, {.method = Method::kPost, .body = std::string(1001, 'x')}));
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.body, "413: the body is over 1000 bytes");
  // In chunks, where no length was announced.
  RawClient client(server->port());
  client.Send(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.Send("400\r\n" + std::string(0x400, 'x') + "\r\n0\r\n\r\n");
  EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 413"));
  EXPECT_EQ(calls, 0);
}

TEST(HttpServerTest, BoundsAllBodiesTogether) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> calls{0};
  const auto server =
      StartServer({.max_body_bytes = 800, .max_bodies_bytes = 1000},
                  [&](const ServerRequest& request) {
                    ++calls;
                    if (request.path == "/wait") released.wait();
                    return Echo(request);
                  });
  const auto post = [&](size_t bytes) {
    const auto response = Send(
        *server, {.method = Method::kPost, .body = std::string(bytes, 'x')});
    EXPECT_OK(response.status());
    return response.ok() ? response->status : 0;
  };
  RawClient first(server->port());
  first.Send("POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 600\r\n\r\n" +
             std::string(600, 'x'));
  while (calls == 0) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(post(401), 503);
  EXPECT_EQ(post(400), 200);
  // One that doesn't say may take all that one may.
  RawClient chunked(server->port());
  chunked.Send(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "1\r\nx\r\n0\r\n\r\n");
  const std::string refused = chunked.Read();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1"));
  // What has no body is answered all the same.
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, Send(*server, {}));
  EXPECT_EQ(response.status, 200);
  release.set_value();
  EXPECT_THAT(first.Read(), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(post(800), 200);
}

TEST(HttpServerTest, ABodyOverAllRoomKeepsNoOtherRequestOut) {
  std::promise<void> release;
  std::promise<void> began;
  const auto server =
      StartServer({.max_body_bytes = 2000, .max_bodies_bytes = 1000},
                  [&, released = release.get_future().share()](
                      const ServerRequest& request) {
                    if (request.path == "/wait") {
                      began.set_value();
                      released.wait();
                    }
                    return Echo(request);
                  });
  RawClient first(server->port());
  first.Send("POST /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 1500\r\n\r\n" +
             std::string(1500, 'x'));
  began.get_future().wait();
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, Send(*server, {}));
  EXPECT_EQ(response.status, 200);
  release.set_value();
  EXPECT_THAT(first.Read(), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServerTest, RefusesLargeHeaders) {
  const auto server = StartServer({.max_header_bytes = 2000}, Echo);
  RawClient client(server->port());
  client.Send("GET / HTTP/1.1\r\nX: " + std::string(3000, 'x'));
  EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 431"));
}

TEST(HttpServerTest, ClosesSlowHeadersWithoutAThread) {
  const auto server =
      StartServer({.max_active = 2, .header_timeout_ms = 300}, Echo);
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<RawClient>(server->port()));
    slow.back()->Send("GET / HTTP/1.1\r\nX: ");
  }
  // All of them together keep nobody from being served.
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, Send(*server, {}));
  EXPECT_EQ(response.status, 200);
  for (int i = 0; i < 10; ++i) {
    for (auto& client : slow) client->Send("x");
    std::this_thread::sleep_for(milliseconds(50));
  }
  for (auto& client : slow) EXPECT_EQ(client->Read(), "");
}

TEST(HttpServerTest, ClosesSlowBodies) {
  const auto server = StartServer({.body_timeout_ms = 200}, Echo);
  RawClient client(server->port());
  client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  const auto start = steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    client.Send("x");
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_THAT(client.Read(), StartsWith("HTTP/1.1 400"));
  EXPECT_LT(steady_clock::now() - start, milliseconds(3000));
}

TEST(HttpServerTest, ClosesIdleConnections) {
  const auto server = StartServer({.idle_timeout_ms = 100}, Echo);
  RawClient client(server->port());
  EXPECT_EQ(client.Read(), "");
}

TEST(HttpServerTest, RefusesWhatIsNotHttp) {
  const auto server = StartServer({}, Echo);
  for (const std::string_view garbage :
       {"\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: "
        "2\r\n\r\nab"}) {
    RawClient client(server->port());
    client.Send(garbage);
    const std::string answer = client.Read();
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 4")) << answer;
  }
  ASSERT_OK_AND_ASSIGN(const HttpResponse response, Send(*server, {}));
  EXPECT_EQ(response.status, 200);
}

TEST(HttpServerTest, StopWaitsForRequestsAtWork) {
  std::atomic<bool> began{false};
  const auto server = StartServer({}, [&](const ServerRequest&) {
    began = true;
    std::this_thread::sleep_for(milliseconds(200));
    return ServerResponse{.body = "whole"};
  });
  std::thread stopper([&] {
    while (!began) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(server->Stop(5000), 0U);
  });
  const auto response = Send(*server, {});
  stopper.join();
  ASSERT_OK(response);
  EXPECT_EQ(response->body, "whole");
  EXPECT_FALSE(Send(*server, {}).ok());
}

TEST(HttpServerTest, SaysThatItIsShuttingDownWhileRequestsEnd) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> began{false};
  const auto server = StartServer({}, [&](const ServerRequest&) {
    began = true;
    released.wait();
    return ServerResponse{.body = "whole"};
  });
  RawClient at_work(server->port());
  at_work.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (!began) std::this_thread::sleep_for(milliseconds(1));
  std::thread stopper([&] { EXPECT_EQ(server->Stop(5000), 0U); });
  // Until Stop has come so far a request is taken, and waits.
  std::string answer;
  const auto end = steady_clock::now() + milliseconds(5000);
  while (answer.empty() || answer == "[timeout]") {
    ASSERT_LT(steady_clock::now(), end);
    RawClient late(server->port());
    late.Send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    answer = late.Read("\r\n\r\n", 100);
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 1"));
  release.set_value();
  EXPECT_THAT(at_work.Read("whole"), StartsWith("HTTP/1.1 200"));
  stopper.join();
}

TEST(HttpServerTest, StopCutsWhatDoesNotEnd) {
  std::atomic<bool> began{false};
  const auto server = StartServer({}, [&](const ServerRequest& request) {
    began = true;
    while (!request.is_client_gone()) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return ServerResponse{};
  });
  RawClient client(server->port());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  while (!began) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(server->Stop(50), 1U);
}

TEST(HttpServerTest, ClosesConnectionsOverTheLimit) {
  const auto server = StartServer({.max_connections = 2}, Echo);
  RawClient first(server->port());
  RawClient second(server->port());
  // Accepted in order, so both are counted before the third comes.
  first.Send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(first.Read("GET /1"), HasSubstr("200"));
  second.Send("GET /2 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(second.Read("GET /2"), HasSubstr("200"));
  while (server->counts().connections < 2 || server->counts().active > 0) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  RawClient third(server->port());
  EXPECT_EQ(third.Read(), "");
}

TEST(HttpServerTest, SaysThatThereAreTooManyRequestsAtOnce) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::atomic<int> at_work{0};
  const auto server = StartServer(
      {.max_active = 2,
       .error_body =
           [](int status, std::string_view message) {
             return std::to_string(status) + ": " + std::string(message);
           }},
      [&](const ServerRequest&) {
        ++at_work;
        released.wait();
        return ServerResponse{.body = "done"};
      });
  constexpr char kRequest[] =
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody";
  RawClient first(server->port());
  RawClient second(server->port());
  first.Send(kRequest);
  second.Send(kRequest);
  while (at_work < 2) std::this_thread::sleep_for(milliseconds(1));

  // More than there are threads to refuse them.
  std::vector<std::unique_ptr<RawClient>> more;
  for (int i = 0; i < 32; ++i) {
    more.push_back(std::make_unique<RawClient>(server->port()));
    more.back()->Send(kRequest);
  }
  for (const auto& client : more) {
    const std::string answer = client->Read();
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n"));
    EXPECT_THAT(answer, HasSubstr("503: too many requests at once"));
  }
  more.clear();
  release.set_value();
  EXPECT_THAT(first.Read("done"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(second.Read("done"), StartsWith("HTTP/1.1 200"));
  RawClient after(server->port());
  after.Send(kRequest);
  EXPECT_THAT(after.Read("done"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServerTest, HoldsManyIdleConnections) {
  const auto server = StartServer({}, Echo);
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 400; ++i) {
    idle.push_back(std::make_unique<RawClient>(server->port()));
    idle.back()->Send("GET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(idle.back()->Read("GET /x"), HasSubstr("200"));
  }
  EXPECT_TRUE(ComesToConnections(*server, 400));
  idle.front()->Send("GET /y HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(idle.front()->Read("GET /y"), HasSubstr("200"));
}

}  // namespace
}  // namespace nexus::net
