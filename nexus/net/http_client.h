// HttpClient: HTTP and HTTPS requests with a deadline, a size limit,
// cancellation and a streaming body. One of the two users of cpp-httplib.
//
// A request runs on the caller's thread and blocks it. Connections are kept
// alive in a small pool, one request at a time on each.
#ifndef NEXUS_NET_HTTP_CLIENT_H_
#define NEXUS_NET_HTTP_CLIENT_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "nexus/base/result.h"

namespace nexus::net {

// Header names compare without regard to case, as HTTP wants it.
struct HeaderNameLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};
using HttpHeaders = std::map<std::string, std::string, HeaderNameLess>;

struct HttpRequest {
  enum class Method { kGet, kPost, kDelete };
  Method method = Method::kGet;
  // Path and query. Empty: the path of the client's URL.
  std::string path;
  HttpHeaders headers;  // added to the client's
  std::string body;
  std::string content_type = "application/json";
  // From the start of the request to the last byte of the body; 0: no limit.
  int timeout_ms = 60000;
  // Bounds HttpResponse::body, or the whole stream when `on_data` is set.
  size_t max_body_bytes = size_t{16} << 20;
  // Asked about every 10 ms, from another thread; the request ends with
  // kCancelled soon after it says true.
  std::function<bool()> should_cancel;
  // Called once, before any data. False ends the request with kCancelled.
  std::function<bool(int status, const HttpHeaders&)> on_headers;
  // With it, the body goes here in pieces, whatever the status is, and
  // HttpResponse::body stays empty. False ends the request with kCancelled.
  std::function<bool(std::string_view)> on_data;
};

struct HttpResponse {
  int status = 0;
  HttpHeaders headers;
  std::string body;
};

struct HttpUrl {
  std::string scheme;  // "http" or "https"
  std::string host;    // without brackets
  int port = 0;
  std::string path;  // with the query, at least "/"
};

// kInvalidArgument says what is wrong with `url`.
Result<HttpUrl> ParseHttpUrl(std::string_view url);

struct HttpClientOptions {
  int connect_timeout_ms = 10000;
  HttpHeaders headers;  // sent with every request
};

// Thread-safe.
class HttpClient {
 public:
  static Result<std::unique_ptr<HttpClient>> Create(
      std::string_view url, const HttpClientOptions& options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Any HTTP status from 200 on is a success here; an error means that no whole
  // response came: kUnavailable (can't connect, connection lost, TLS, a 1xx
  // other than 100),
  // kDeadlineExceeded, kCancelled, kResourceExhausted (too large). Errors name
  // the URL. Redirects are not followed: headers may carry credentials.
  Result<HttpResponse> Send(const HttpRequest& request);

  const std::string& url() const { return url_; }

 private:
  struct Impl;
  HttpClient(std::string url, std::unique_ptr<Impl> impl);

  std::string url_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nexus::net

#endif  // NEXUS_NET_HTTP_CLIENT_H_
