// HttpTestServer: an HTTP server on a free port of 127.0.0.1 for tests, which
// may answer in pieces and keep a response open.
#ifndef NEXUS_NET_TESTING_HTTP_TEST_SERVER_H_
#define NEXUS_NET_TESTING_HTTP_TEST_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "nexus/net/http_client.h"

namespace nexus::net {

struct TestRequest {
  std::string method;
  std::string path;
  HttpHeaders headers;
  std::string body;

  // Empty when absent.
  std::string Header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

// Sends one piece of a body; false once the client has gone or the server is
// stopping.
using TestWriter = std::function<bool(std::string_view)>;

struct TestResponse {
  int status = 200;
  HttpHeaders headers;
  std::string content_type = "application/json";
  std::string body;
  // With it, the body is what this writes; returning ends it.
  std::function<void(const TestWriter&)> stream;
  // With `stream`: cut the connection instead of ending the body properly.
  bool abort_after_stream = false;
};

// The handler runs on several threads at once.
class HttpTestServer {
 public:
  using Handler = std::function<TestResponse(const TestRequest&)>;
  explicit HttpTestServer(Handler handler);
  ~HttpTestServer();
  HttpTestServer(const HttpTestServer&) = delete;
  HttpTestServer& operator=(const HttpTestServer&) = delete;

  int port() const;
  std::string Url(std::string_view path = "/") const;
  bool stopping() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nexus::net

#endif  // NEXUS_NET_TESTING_HTTP_TEST_SERVER_H_
