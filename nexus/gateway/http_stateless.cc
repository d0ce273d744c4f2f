#include "nexus/gateway/http_stateless.h"

#include <optional>
#include <utility>
#include <variant>

#include "nexus/gateway/http_replies.h"
#include "nexus/gateway/outbox.h"
#include "nexus/gateway/session.h"
#include "nexus/gateway/stateless.h"
#include "nexus/mcp/request_headers.h"

namespace nexus::gateway {
namespace {

using mcp::RpcRequest;
using mcp::RpcResponse;
using net::ServerRequest;
using net::ServerResponse;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Progress of one request that its client hasn't read.
constexpr size_t kMaxProgressBytes = size_t{64} << 20;
// How soon a request notices that its client has gone.
constexpr milliseconds kPoll{50};

// The refusal of headers that say something else than the body, or nothing.
std::optional<RpcResponse> CheckHeaders(const ServerRequest& request,
                                        const RpcRequest& rpc,
                                        const ToolSet& tools) {
  const auto mismatch = [&](const std::string& header) {
    const auto found = request.headers.find(header);
    return ErrorResponse(rpc.id, kHeaderMismatch,
                         found == request.headers.end()
                             ? "the header " + header + " is missing"
                             : "the header " + header + " has '" +
                                   found->second +
                                   "', the body says otherwise");
  };
  // Missing is wrong where `means` is asked at all.
  const auto is_wrong = [&](const std::string& header, const auto& means) {
    const auto found = request.headers.find(header);
    return found == request.headers.end() || !means(found->second);
  };
  const Json& meta = *MetaOf(rpc.params);
  if (is_wrong(mcp::kVersionHeader, [&](const std::string& header) {
        return header == meta[kVersionKey].get<std::string>();
      })) {
    return mismatch(mcp::kVersionHeader);
  }
  if (is_wrong(mcp::kMethodHeader, [&](const std::string& header) {
        return header == rpc.method;
      })) {
    return mismatch(mcp::kMethodHeader);
  }
  const auto name = mcp::NamedInHeader(rpc.method, rpc.params);
  if (name && is_wrong(mcp::kNameHeader, [&](const std::string& header) {
        return mcp::HeaderMeans(header, *name);
      })) {
    return mismatch(mcp::kNameHeader);
  }
  const GatewayTool* tool =
      name && rpc.method == "tools/call" ? tools.FindExposed(*name) : nullptr;
  if (tool == nullptr) return std::nullopt;
  const auto schema = tool->raw().find("inputSchema");
  const auto arguments = rpc.params.find("arguments");
  if (schema == tool->raw().end()) return std::nullopt;
  for (const mcp::ParamHeader& param :
       mcp::ParamHeaders(*schema, arguments == rpc.params.end() ? Json::object()
                                                                : *arguments)) {
    const bool wrong =
        param.value.is_null()
            ? request.headers.contains(param.name)
            : is_wrong(param.name, [&](const std::string& header) {
                return mcp::ParamHeaderMeans(header, param.value);
              });
    if (wrong) return mismatch(param.name);
  }
  return std::nullopt;
}

}  // namespace

// One request and all that is said about it.
struct StatelessFront::Exchange {
  Exchange(Gateway* gateway, const StatelessFrontOptions& options,
           size_t max_bytes)
      : outbox(max_bytes),
        session(gateway, {.version = options.version, .notify = Sink()}) {}

  NotificationSink Sink() {
    return [this](const mcp::RpcNotification& notification) {
      [[maybe_unused]] const bool dropped =
          outbox.Push(mcp::SerializeRpc(notification));
    };
  }

  Outbox outbox;                      // closed once `answer` is there
  std::optional<RpcResponse> answer;  // nothing: the request was cancelled
  Session session;
};

StatelessFront::StatelessFront(Gateway* gateway, StatelessFrontOptions options,
                               net::WorkerPool* workers,
                               const std::atomic<bool>* draining)
    : gateway_(gateway),
      options_(std::move(options)),
      workers_(workers),
      draining_(draining) {}

bool StatelessFront::IsFor(const std::string& revision,
                           const Incoming& incoming) {
  if (revision == mcp::kStatelessRevision) return true;
  if (incoming.is_batch || incoming.messages.size() != 1) return false;
  const auto* rpc = std::get_if<RpcRequest>(&incoming.messages[0]);
  return rpc != nullptr && IsStateless(*rpc);
}

ServerResponse StatelessFront::Post(const ServerRequest& request,
                                    Incoming incoming) {
  if (incoming.is_batch || incoming.messages.size() != 1) {
    return Refuse(400, std::string("a batch: revision ") +
                           mcp::kStatelessRevision + " has none");
  }
  if (std::holds_alternative<mcp::RpcNotification>(incoming.messages[0])) {
    // The revision has none over HTTP: hanging up cancels.
    ServerResponse accepted;
    accepted.status = 202;
    return accepted;
  }
  auto* rpc = std::get_if<RpcRequest>(&incoming.messages[0]);
  if (rpc == nullptr) return Refuse(400, "the gateway has asked nothing");
  if (const auto refusal = CheckRequestMeta(*rpc)) {
    return RefuseRpc(400, *refusal);
  }
  if (const auto refusal = CheckHeaders(request, *rpc, *gateway_->tools())) {
    return RefuseRpc(400, *refusal);
  }
  if (rpc->method == kListen) return Listen(request, std::move(*rpc));
  return Answer(request, std::move(*rpc));
}

ServerResponse StatelessFront::Answer(const ServerRequest& request,
                                      RpcRequest rpc) {
  const bool takes_stream = Accepts(request, kEventStream);
  auto exchange =
      std::make_shared<Exchange>(gateway_, options_, kMaxProgressBytes);
  // Whoever gives up on the answer, before a stream has begun or in it, ends
  // the request with it.
  const std::shared_ptr<void> reader(
      nullptr, [exchange](void*) { exchange->session.CancelAll(); });
  const auto run = [exchange, takes_stream,
                    ticket = exchange->session.Admit(std::move(rpc))] {
    exchange->answer = exchange->session.Run(
        ticket, takes_stream ? exchange->Sink() : NotificationSink());
    exchange->outbox.Close();
  };
  // Without a thread: here, and what it says comes all at the end.
  if (!workers_->Start(run)) run();

  const auto gone = [&] { return request.is_client_gone(); };
  const auto deadline = steady_clock::now() + options_.patience;
  std::optional<std::string> first;
  while (!first && !exchange->outbox.closed() && !gone() &&
         !(takes_stream && steady_clock::now() >= deadline)) {
    first = exchange->outbox.Pop(kPoll);
  }
  if (!first && exchange->outbox.closed()) first = exchange->outbox.Pop({});
  if (!first && exchange->outbox.closed() && exchange->answer) {
    return RefuseRpc(HttpStatusOf(*exchange->answer), *exchange->answer);
  }
  if (!takes_stream || gone()) return Refuse(503, "the request was cancelled");
  ServerResponse response = EventStream();
  response.stream =
      [this, exchange, reader, first = std::move(first),
       gone = request.is_client_gone](const net::StreamWriter& write) {
        if (first && !write(Event(*first))) return false;
        if (!WriteEvents(&exchange->outbox, write, options_.heartbeat, gone)) {
          return false;
        }
        // Over before it was closed: nobody reads.
        return exchange->outbox.closed() && exchange->answer &&
               write(Event(mcp::SerializeRpc(*exchange->answer)));
      };
  return response;
}

ServerResponse StatelessFront::Listen(const ServerRequest& request,
                                      RpcRequest rpc) {
  if (!Accepts(request, kEventStream)) {
    return Refuse(406, "Accept must name text/event-stream");
  }
  // Counted until the stream has ended, or is dropped.
  const std::shared_ptr<void> place(nullptr,
                                    [this](void*) { --subscriptions_; });
  if (++subscriptions_ > options_.max_subscriptions) {
    return RefuseRpc(503,
                     ErrorResponse(rpc.id, kServerError,
                                   std::to_string(options_.max_subscriptions) +
                                       " subscriptions are open; end one"));
  }
  auto exchange =
      std::make_shared<Exchange>(gateway_, options_, options_.max_unread_bytes);
  const auto ticket = exchange->session.Admit(std::move(rpc));
  if (const auto refusal = exchange->session.Run(ticket, nullptr)) {
    return RefuseRpc(HttpStatusOf(*refusal), *refusal);
  }
  ServerResponse response = EventStream();
  response.stream = [this, exchange, place, gone = request.is_client_gone](
                        const net::StreamWriter& write) {
    const bool ok = WriteEvents(&exchange->outbox, write, options_.heartbeat,
                                [&] { return *draining_ || gone(); });
    if (!ok || gone()) return ok;
    for (const RpcResponse& end : exchange->session.EndSubscriptions()) {
      if (!write(Event(mcp::SerializeRpc(end)))) return false;
    }
    return true;
  };
  return response;
}

}  // namespace nexus::gateway
