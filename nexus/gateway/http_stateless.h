// StatelessFront: streamable HTTP for clients of the revision without a
// handshake. Each POST is a conversation of its own: one request, its progress,
// its answer. A client that hangs up has cancelled it.
//
// An answer that comes soon, and alone, is plain JSON, so that its HTTP status
// can say what is wrong; else it is the end of an event stream.
#ifndef NEXUS_GATEWAY_HTTP_STATELESS_H_
#define NEXUS_GATEWAY_HTTP_STATELESS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "nexus/gateway/gateway.h"
#include "nexus/gateway/incoming.h"
#include "nexus/net/http_server.h"
#include "nexus/net/worker_pool.h"

namespace nexus::gateway {

struct StatelessFrontOptions {
  std::string version;  // of the program
  // subscriptions/listen that may be open at once.
  size_t max_subscriptions = 100;
  // News of one subscription that nobody reads; more is dropped.
  size_t max_unread_bytes = size_t{1} << 20;
  std::chrono::milliseconds heartbeat{15000};
  // How long a request may take until its answer becomes a stream.
  std::chrono::milliseconds patience{1000};
};

// Thread-safe.
class StatelessFront {
 public:
  // All but the options must outlive it. `workers` must have ended when the
  // gateway does; subscriptions end once `draining` is set.
  StatelessFront(Gateway* gateway, StatelessFrontOptions options,
                 net::WorkerPool* workers, const std::atomic<bool>* draining);
  StatelessFront(const StatelessFront&) = delete;
  StatelessFront& operator=(const StatelessFront&) = delete;

  // Whether a POST is of such a client, by its revision header or its body.
  static bool IsFor(const std::string& revision, const Incoming& incoming);

  net::ServerResponse Post(const net::ServerRequest& request,
                           Incoming incoming);

 private:
  struct Exchange;

  net::ServerResponse Answer(const net::ServerRequest& request,
                             mcp::RpcRequest rpc);
  net::ServerResponse Listen(const net::ServerRequest& request,
                             mcp::RpcRequest rpc);

  Gateway* const gateway_;
  const StatelessFrontOptions options_;
  net::WorkerPool* const workers_;
  const std::atomic<bool>* const draining_;
  std::atomic<size_t> subscriptions_{0};
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_HTTP_STATELESS_H_
