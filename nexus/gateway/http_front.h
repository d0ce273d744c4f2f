// HttpFront: the gateway over streamable HTTP: a session for each client, POST
// for its messages, GET for what the gateway says unasked, DELETE at the end.
// Clients that know no sessions are http_stateless.h's.
//
// A request of a server's is answered as an event stream where the client takes
// one, so that progress can go ahead of the answer. The request runs on a
// thread of its own and the connection's thread writes: a slow reader holds up
// no server. A client that goes away in a call doesn't end the call, as the
// protocol wants it: notifications/cancelled does.
#ifndef NEXUS_GATEWAY_HTTP_FRONT_H_
#define NEXUS_GATEWAY_HTTP_FRONT_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/mutex.h"
#include "nexus/gateway/gateway.h"
#include "nexus/gateway/http_stateless.h"
#include "nexus/gateway/incoming.h"
#include "nexus/gateway/outbox.h"
#include "nexus/gateway/session.h"
#include "nexus/net/http_server.h"
#include "nexus/net/worker_pool.h"

namespace nexus::gateway {

inline constexpr const char* kHttpPath = "/mcp";

struct HttpFrontOptions {
  std::string version;  // of the program
  // Without sessions it bounds subscriptions.
  size_t max_sessions = 100;
  // Requests of all sessions that may run at once.
  size_t max_requests = 128;
  // Without a message from a client that has no stream open.
  std::chrono::milliseconds session_idle{std::chrono::hours(1)};
  // What waits for a client's GET stream; more is dropped.
  size_t max_unread_bytes = size_t{1} << 20;
  // A comment on a stream without news, so that a gone client is noticed and
  // proxies keep the connection.
  std::chrono::milliseconds heartbeat{15000};
};

// Thread-safe.
class HttpFront {
 public:
  HttpFront(Gateway* gateway, HttpFrontOptions options);
  // Cancels what runs. The HTTP server must have been stopped.
  ~HttpFront();
  HttpFront(const HttpFront&) = delete;
  HttpFront& operator=(const HttpFront&) = delete;

  net::ServerResponse Handle(const net::ServerRequest& request)
      EXCLUDES(mutex_);
  // Ends the GET streams, which would go on for ever, and takes no more
  // requests; those at work go on.
  void SetDraining() EXCLUDES(mutex_);

  // Body of the HTTP server's own errors, as JSON-RPC.
  static std::string ErrorBody(int status, std::string_view message);

 private:
  struct Client;

  net::ServerResponse Post(const net::ServerRequest& request);
  net::ServerResponse Listen(const net::ServerRequest& request);
  net::ServerResponse Delete(const net::ServerRequest& request);
  net::ServerResponse Answer(
      const net::ServerRequest& request, const std::shared_ptr<Client>& client,
      std::vector<std::shared_ptr<Session::Ticket>> tickets, bool is_batch);
  // The session that the request names, or the answer that says why not.
  std::shared_ptr<Client> Find(const net::ServerRequest& request,
                               net::ServerResponse* refusal) EXCLUDES(mutex_);
  // Null when there are too many.
  std::shared_ptr<Client> Open() EXCLUDES(mutex_);

  Gateway* const gateway_;
  const HttpFrontOptions options_;
  std::atomic<bool> draining_{false};

  Mutex mutex_;
  std::map<std::string, std::shared_ptr<Client>, std::less<>> clients_
      GUARDED_BY(mutex_);
  net::WorkerPool workers_;
  StatelessFront stateless_;
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_HTTP_FRONT_H_
