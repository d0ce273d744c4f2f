// RemoteApi: the endpoints of a server whose answers come from a remote.
//
// Stands before HttpApi, which keeps what needs no model of its own (routing,
// embeddings). Chat requests go through as their clients wrote them, but for
// the tools.
#ifndef NEXUS_SERVE_REMOTE_API_H_
#define NEXUS_SERVE_REMOTE_API_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nexus/net/http_server.h"
#include "nexus/remote/chat_client.h"
#include "nexus/remote/tool_request.h"
#include "nexus/serve/metrics.h"
#include "nexus/serve/openai_chat.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

struct RemoteApiOptions {
  // The remote's name for the model. Empty: requests name it, and any name goes
  // through.
  std::string model;
  std::vector<std::string> names;  // that requests may use as well
  std::string embedding_model;     // the encoder's name; empty: none
  ToolsMode tools_mode = ToolsMode::kRoute;
  remote::SchemaForm form = remote::SchemaForm::kFull;
  int max_tools = 5;  // that go out when the router isn't sure
  // From arrival to the last byte, retries included.
  std::chrono::milliseconds deadline{600000};
  size_t max_requests = 64;  // at work; more get 429
};

// Thread-safe. All that it is made of must outlive it.
class RemoteApi {
 public:
  // Answers what isn't named here.
  using Rest = std::function<net::ServerResponse(const net::ServerRequest&)>;
  RemoteApi(RemoteApiOptions options, remote::ChatClient* client,
            ToolRouter* router, Metrics* metrics, Rest rest);

  net::ServerResponse Handle(const net::ServerRequest& request);
  void SetDraining() { draining_ = true; }
  // For the gauge; called by /metrics.
  void SetConnectionCount(std::function<size_t()> count) {
    connection_count_ = std::move(count);
  }

 private:
  net::ServerResponse Answer(const net::ServerRequest& request);
  net::ServerResponse Chat(const net::ServerRequest& request);
  net::ServerResponse Models() const;
  net::ServerResponse Health() const;
  net::ServerResponse MetricsText() const;
  bool KnowsModel(const std::string& name) const;

  const RemoteApiOptions options_;
  remote::ChatClient* const client_;
  ToolRouter* const router_;
  Metrics* const metrics_;
  const Rest rest_;
  const int64_t started_at_;
  std::atomic<bool> draining_{false};
  std::atomic<size_t> at_work_{0};
  std::atomic<uint64_t> refused_{0};
  std::function<size_t()> connection_count_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_REMOTE_API_H_
