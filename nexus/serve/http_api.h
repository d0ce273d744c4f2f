// HttpApi: the endpoints. Requests of net::HttpServer in, answers of
// ChatService, ToolRouter and Metrics out; docs/http_api.md describes them.
#ifndef NEXUS_SERVE_HTTP_API_H_
#define NEXUS_SERVE_HTTP_API_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/net/http_server.h"
#include "nexus/serve/chat_service.h"
#include "nexus/serve/inspect_api.h"
#include "nexus/serve/metrics.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

struct HttpApiOptions {
  std::string model;               // its name in /v1/models
  std::vector<std::string> names;  // other names that requests may use
  std::string embedding_model;     // the encoder's name; empty: none
  ToolsMode tools_mode = ToolsMode::kRoute;  // as ChatServiceOptions has it
  // Tools of --mcp and --tools, for /v1/nexus/route and the page.
  std::vector<schema::ToolSchema> registry;
  // From arrival to the last byte.
  std::chrono::milliseconds deadline{600000};
};

// Thread-safe. All that it is made of must outlive it.
class HttpApi {
 public:
  struct Parts {
    const engine::Engine* engine = nullptr;
    ChatService* chat = nullptr;
    ToolRouter* router = nullptr;
    Metrics* metrics = nullptr;
  };
  HttpApi(HttpApiOptions options, const Parts& parts);

  net::ServerResponse Handle(const net::ServerRequest& request);
  // What the server answers by itself, in OpenAI's shape.
  static std::string ErrorBody(int status, std::string_view message);

  // From now on /health says 503, so that balancers look elsewhere.
  void SetDraining() { draining_ = true; }
  // For the gauge; called by /metrics.
  void SetConnectionCount(std::function<size_t()> count) {
    connection_count_ = std::move(count);
  }

 private:
  net::ServerResponse Chat(const net::ServerRequest& request);
  net::ServerResponse Responses(const net::ServerRequest& request);
  ChatHead NewHead(std::string_view id_prefix) const;
  net::ServerResponse Answer(const net::ServerRequest& request,
                             ChatRequest chat,
                             std::unique_ptr<AnswerFormat> format,
                             const Caller& caller);
  // From now on.
  Caller CallerOf(const net::ServerRequest& request) const;
  net::ServerResponse Models() const;
  net::ServerResponse Embeddings(const net::ServerRequest& request);
  net::ServerResponse Route(const net::ServerRequest& request);
  net::ServerResponse Server() const;
  net::ServerResponse MetricsText() const;
  bool KnowsModel(const std::string& name) const;

  const HttpApiOptions options_;
  const int64_t started_at_;
  const Parts parts_;
  const InspectApi inspect_;
  std::atomic<bool> draining_{false};
  std::function<size_t()> connection_count_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_HTTP_API_H_
