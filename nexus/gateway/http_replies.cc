#include "nexus/gateway/http_replies.h"

#include <optional>

#include "nexus/gateway/incoming.h"

namespace nexus::gateway {
namespace {

using net::ServerRequest;
using net::ServerResponse;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How soon a stream notices that it should end.
constexpr milliseconds kPoll{100};

}  // namespace

std::string HttpErrorBody(int status, std::string_view message) {
  const int64_t code =
      status == 400 ? mcp::rpc_error::kInvalidRequest : kServerError;
  return mcp::SerializeRpc(ErrorResponse({}, code, std::string(message)));
}

ServerResponse Refuse(int status, const std::string& message) {
  ServerResponse response;
  response.status = status;
  response.body = HttpErrorBody(status, message);
  return response;
}

ServerResponse RefuseRpc(int status, const mcp::RpcResponse& refusal) {
  ServerResponse response;
  response.status = status;
  response.body = mcp::SerializeRpc(refusal);
  return response;
}

ServerResponse EventStream() {
  ServerResponse response;
  response.content_type = kEventStream;
  response.headers["Cache-Control"] = "no-cache";
  // nginx keeps a stream to itself otherwise.
  response.headers["X-Accel-Buffering"] = "no";
  return response;
}

std::string Event(std::string_view json) {
  return "event: message\ndata: " + std::string(json) + "\n\n";
}

bool Accepts(const ServerRequest& request, std::string_view type) {
  const std::string_view accept = request.Header("Accept");
  return accept.find(type) != std::string_view::npos ||
         accept.find("*/*") != std::string_view::npos;
}

bool WriteEvents(Outbox* outbox, const net::StreamWriter& write,
                 milliseconds heartbeat, const std::function<bool()>& is_over) {
  auto last = steady_clock::now();
  while (!is_over()) {
    // Asked first: what comes between an empty look and the end isn't lost.
    const bool was_closed = outbox->closed();
    if (const auto text = outbox->Pop(kPoll)) {
      if (!write(Event(*text))) return false;
      last = steady_clock::now();
    } else if (was_closed) {
      return true;
    } else if (steady_clock::now() - last >= heartbeat) {
      if (!write(": \n\n")) return false;
      last = steady_clock::now();
    }
  }
  return true;
}

}  // namespace nexus::gateway
