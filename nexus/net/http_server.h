// HttpServer: HTTP/1.1 on one address, with a handler for every request. The
// other of the two users of cpp-httplib.
//
// cpp-httplib gives each connection a thread for as long as it is open, and a
// sender that trickles may hold it for ever. Here a connection takes a thread
// only from the moment its request's headers are whole until the answer is out;
// in between it waits in a ConnectionParker, which costs a file descriptor.
//
// What reaches the handler is within the limits and, with a token set, carries
// it. Everything else is answered here.
#ifndef NEXUS_NET_HTTP_SERVER_H_
#define NEXUS_NET_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/net/http_client.h"

namespace nexus::net {

struct ServerRequest {
  // Names the request in logs: no two have the same, restarts included. The
  // answer carries it as X-Request-Id.
  std::string id;
  std::string method;
  std::string path;  // decoded, without the query
  HttpHeaders headers;
  std::string body;
  std::string peer;  // address of the client
  // Whether the client has closed the connection, or the server wants to: the
  // answer has no reader any more. Cheap enough to ask every few milliseconds.
  std::function<bool()> is_client_gone;

  // Empty when absent.
  std::string_view Header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view() : found->second;
  }
};

// Sends one piece of a body; false once nobody reads it.
using StreamWriter = std::function<bool(std::string_view)>;

struct ServerResponse {
  int status = 200;
  HttpHeaders headers;
  std::string content_type = "application/json";
  std::string body;
  // With it, the body is what this writes, in chunks; returning ends it. Runs
  // on the handler's thread, after the handler. False cuts the connection
  // instead of ending the body properly.
  std::function<bool(const StreamWriter&)> stream;
};

// One request that was answered, by the handler or by the server itself.
struct AnsweredRequest {
  std::string id;
  std::string method;  // as the client wrote it, like the path
  std::string path;    // decoded, without the query
  std::string peer;
  int status = 0;
  // From the request's headers to the last byte of the answer.
  double duration_ms = 0;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  size_t max_body_bytes = size_t{16} << 20;
  // Of all requests at work together, from before a body is read until its
  // answer is out; one of unknown length counts as the longest. More get 503;
  // one alone is never refused for this.
  size_t max_bodies_bytes = size_t{64} << 20;
  size_t max_header_bytes = size_t{32} << 10;
  // Open at once; fewer where the process may not open so many files. More are
  // closed at once.
  size_t max_connections = 4096;
  // Requests that are read, answered or wait for their answer at once: a thread
  // each. More get 503, and on_answered isn't called for them.
  size_t max_active = 256;
  int max_requests_per_connection = 10000;
  // From a request's first byte to the end of its headers, and from there to
  // the end of its body.
  int header_timeout_ms = 10000;
  int body_timeout_ms = 30000;
  // Without a byte from or to a connection that waits for the next request, or
  // for a client that doesn't read.
  int idle_timeout_ms = 75000;
  int write_timeout_ms = 30000;
  // Empty: everybody may ask. Else requests need "Authorization: Bearer ...",
  // but for these paths.
  std::string bearer_token;
  std::vector<std::string> open_paths;
  // Pages of other sites that may send requests and read the answers, as
  // OriginRules has them: CheckOrigin of each is ok.
  std::vector<std::string> allowed_origins;
  // Pages of the host that a request names in its Host header may send it, too.
  // Only together with a token: see OriginRules.
  bool own_host_pages = false;
  // Body of the answers that are made here (400, 401, 403, 404, 413, ...).
  std::function<std::string(int status, std::string_view message)> error_body;
  // Called once the answer's last byte is out, on the request's thread. Not for
  // headers over the limit: nothing was read of those.
  std::function<void(const AnsweredRequest&)> on_answered;
};

struct HttpServerCounts {
  size_t connections = 0;  // open
  size_t active = 0;       // with a request at work
};

// Thread-safe.
class HttpServer {
 public:
  // Runs on several threads at once; mustn't throw.
  using Handler = std::function<ServerResponse(const ServerRequest&)>;

  // Bound and listening. kUnavailable names address and port.
  static Result<std::unique_ptr<HttpServer>> Start(
      const HttpServerOptions& options, Handler handler);
  // Stop(0).
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string Url(std::string_view path = "") const;
  HttpServerCounts counts() const;

  // Closes idle connections, answers new ones with 503, waits up to `drain_ms`
  // for the requests at work, then cuts them. Returns how many had to be cut.
  size_t Stop(int drain_ms);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace nexus::net

#endif  // NEXUS_NET_HTTP_SERVER_H_
