#include "nexus/gateway/http_front.h"

#include <algorithm>
#include <random>
#include <utility>

#include "nexus/gateway/http_replies.h"
#include "nexus/gateway/stateless.h"
#include "nexus/mcp/request_headers.h"

namespace nexus::gateway {
namespace {

using net::ServerRequest;
using net::ServerResponse;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kSessionHeader = "Mcp-Session-Id";
// Answers and progress of one request that its client hasn't read.
constexpr size_t kMaxAnswerBytes = size_t{64} << 20;
// 128 bits that nobody can guess: who knows it can use the session.
std::string NewSessionId() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    uint32_t bits = random();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4U) {
      id += kDigits[bits & 15U];
    }
  }
  return id;
}

// Older clients name none.
bool IsServedRevision(const std::string& revision) {
  return revision.empty() ||
         std::any_of(std::begin(kServedRevisions), std::end(kServedRevisions),
                     [&](const char* served) { return revision == served; });
}

}  // namespace

struct HttpFront::Client {
  Client(Gateway* gateway, const HttpFrontOptions& options)
      : id(NewSessionId()),
        outbox(options.max_unread_bytes),
        session(gateway,
                {.version = options.version,
                 .notify = [this](const mcp::RpcNotification& notification) {
                   [[maybe_unused]] const bool dropped =
                       outbox.Push(mcp::SerializeRpc(notification));
                 }}) {}

  const std::string id;
  Outbox outbox;
  Session session;
  // The stream with the last number gets the notifications; older ones end.
  std::atomic<int> streams_begun{0};
  std::atomic<int> streams_open{0};
  std::atomic<steady_clock::duration::rep> last_used{0};

  void Touch() { last_used = steady_clock::now().time_since_epoch().count(); }
  bool IsIdle() const { return streams_open == 0 && session.running() == 0; }
  steady_clock::duration Unused() const {
    return steady_clock::now().time_since_epoch() -
           steady_clock::duration(last_used.load());
  }
};

HttpFront::HttpFront(Gateway* gateway, HttpFrontOptions options)
    : gateway_(gateway),
      options_(std::move(options)),
      workers_(options_.max_requests),
      stateless_(gateway_,
                 {.version = options_.version,
                  .max_subscriptions = options_.max_sessions,
                  .max_unread_bytes = options_.max_unread_bytes,
                  .heartbeat = options_.heartbeat},
                 &workers_, &draining_) {}

HttpFront::~HttpFront() {
  {
    MutexLock lock(mutex_);
    for (auto& [id, client] : clients_) client->session.CancelAll();
  }
  workers_.Shutdown();
}

std::string HttpFront::ErrorBody(int status, std::string_view message) {
  return HttpErrorBody(status, message);
}

ServerResponse HttpFront::Handle(const ServerRequest& request) {
  if (request.path != kHttpPath) {
    return Refuse(404, "no such path: " + request.path +
                           "; the MCP endpoint is " + kHttpPath);
  }
  if (draining_) return Refuse(503, "the gateway is shutting down");
  if (request.method == "POST") return Post(request);
  if (const std::string revision(request.Header(mcp::kVersionHeader));
      revision == mcp::kStatelessRevision) {
    return Refuse(405, "revision " + revision + " has POST only");
  } else if (!IsServedRevision(revision)) {
    return RefuseRpc(400, UnsupportedVersion({}, revision));
  }
  if (request.method == "GET") return Listen(request);
  if (request.method == "DELETE") return Delete(request);
  return Refuse(405, "use POST, GET or DELETE");
}

std::shared_ptr<HttpFront::Client> HttpFront::Find(const ServerRequest& request,
                                                   ServerResponse* refusal) {
  const std::string_view id = request.Header(kSessionHeader);
  if (id.empty()) {
    *refusal = Refuse(
        400, std::string(kSessionHeader) + " is missing; initialize gives one");
    return nullptr;
  }
  MutexLock lock(mutex_);
  const auto found = clients_.find(id);
  if (found == clients_.end()) {
    *refusal = Refuse(404, "no such session: it has ended; initialize anew");
    return nullptr;
  }
  found->second->Touch();
  return found->second;
}

std::shared_ptr<HttpFront::Client> HttpFront::Open() {
  // Outside the lock: it takes one of the gateway's.
  auto client = std::make_shared<Client>(gateway_, options_);
  client->Touch();
  std::vector<std::shared_ptr<Client>> ended;
  MutexLock lock(mutex_);
  for (auto it = clients_.begin(); it != clients_.end();) {
    if (it->second->IsIdle() && it->second->Unused() > options_.session_idle) {
      ended.push_back(it->second);
      it = clients_.erase(it);
    } else {
      ++it;
    }
  }
  if (clients_.size() >= options_.max_sessions) {
    // Clients that went without a DELETE.
    auto oldest = clients_.end();
    for (auto it = clients_.begin(); it != clients_.end(); ++it) {
      if (!it->second->IsIdle()) continue;
      if (oldest == clients_.end() ||
          it->second->Unused() > oldest->second->Unused()) {
        oldest = it;
      }
    }
    if (oldest == clients_.end()) return nullptr;
    ended.push_back(oldest->second);
    clients_.erase(oldest);
  }
  clients_.emplace(client->id, client);
  lock.Unlock();
  ended.clear();
  return client;
}

ServerResponse HttpFront::Post(const ServerRequest& request) {
  if (!request.Header("Content-Type").starts_with("application/json")) {
    return Refuse(415, "Content-Type must be application/json");
  }
  if (!request.Header("Accept").empty() &&
      !Accepts(request, "application/json") &&
      !Accepts(request, kEventStream)) {
    return Refuse(406,
                  "Accept must name application/json and text/event-stream");
  }
  Incoming incoming = ReadIncoming(request.body);
  if (incoming.refusal) return RefuseRpc(400, *incoming.refusal);

  const std::string revision(request.Header(mcp::kVersionHeader));
  if (StatelessFront::IsFor(revision, incoming)) {
    return stateless_.Post(request, std::move(incoming));
  }
  if (!IsServedRevision(revision)) {
    const auto* rpc = std::get_if<mcp::RpcRequest>(&incoming.messages[0]);
    return RefuseRpc(
        400, UnsupportedVersion(
                 rpc == nullptr || incoming.is_batch ? mcp::RpcId() : rpc->id,
                 revision));
  }

  std::shared_ptr<Client> client;
  bool is_new = false;
  if (incoming.messages.size() == 1 && !incoming.is_batch) {
    const auto* first = std::get_if<mcp::RpcRequest>(&incoming.messages[0]);
    is_new = first != nullptr && first->method == "initialize" &&
             request.Header(kSessionHeader).empty();
  }
  if (is_new) {
    client = Open();
    if (client == nullptr) {
      return Refuse(503, "too many sessions are open; end one with DELETE");
    }
  } else {
    ServerResponse refusal;
    client = Find(request, &refusal);
    if (client == nullptr) return refusal;
  }
  if (incoming.is_batch && client->session.revision() != kBatchRevision) {
    return Refuse(400, std::string("a batch: only revision ") + kBatchRevision +
                           " has those");
  }
  std::vector<std::shared_ptr<Session::Ticket>> tickets;
  for (mcp::RpcMessage& message : incoming.messages) {
    if (auto* rpc = std::get_if<mcp::RpcRequest>(&message)) {
      tickets.push_back(client->session.Admit(std::move(*rpc)));
    } else if (const auto* notification =
                   std::get_if<mcp::RpcNotification>(&message)) {
      client->session.Handle(*notification);
    }
  }
  if (tickets.empty()) {
    ServerResponse accepted;
    accepted.status = 202;
    return accepted;
  }
  ServerResponse response =
      Answer(request, client, std::move(tickets), incoming.is_batch);
  if (is_new) {
    if (client->session.revision().empty()) {
      // The handshake failed, and nobody knows the session.
      MutexLock lock(mutex_);
      clients_.erase(client->id);
    } else {
      response.headers[kSessionHeader] = client->id;
    }
  }
  return response;
}

ServerResponse HttpFront::Answer(
    const ServerRequest& request, const std::shared_ptr<Client>& client,
    std::vector<std::shared_ptr<Session::Ticket>> tickets, bool is_batch) {
  const bool is_quick =
      std::all_of(tickets.begin(), tickets.end(), [](const auto& ticket) {
        return ticket->refusal || Session::IsQuick(ticket->request.method);
      });
  ServerResponse response;
  if (is_quick || is_batch || !Accepts(request, kEventStream)) {
    std::string text;
    for (const auto& ticket : tickets) {
      const auto answer = client->session.Run(ticket, nullptr);
      if (!text.empty()) text += ',';
      // Cancelled: a POST has to be answered all the same.
      text += mcp::SerializeRpc(
          answer ? *answer
                 : ErrorResponse(ticket->request.id, kServerError,
                                 "the request was cancelled"));
    }
    response.body = is_batch ? "[" + text + "]" : std::move(text);
    return response;
  }
  auto outbox = std::make_shared<Outbox>(kMaxAnswerBytes);
  const auto run = [client, tickets = std::move(tickets), outbox] {
    const NotificationSink emit =
        [outbox](const mcp::RpcNotification& notification) {
          [[maybe_unused]] const bool dropped =
              outbox->Push(mcp::SerializeRpc(notification));
        };
    for (const auto& ticket : tickets) {
      if (const auto answer = client->session.Run(ticket, emit)) {
        [[maybe_unused]] const bool dropped =
            outbox->Push(mcp::SerializeRpc(*answer));
      }
    }
    client->Touch();
    outbox->Close();
  };
  // Not in the stream, which never begins for a client that has gone already:
  // each ticket must be run. Without a thread: here, and what it says comes all
  // at the end.
  if (!workers_.Start(run)) run();
  response = EventStream();
  response.stream =
      [this, outbox = std::move(outbox),
       gone = request.is_client_gone](const net::StreamWriter& write) {
        return WriteEvents(outbox.get(), write, options_.heartbeat, gone);
      };
  return response;
}

ServerResponse HttpFront::Listen(const ServerRequest& request) {
  if (!Accepts(request, kEventStream)) {
    return Refuse(406, "Accept must name text/event-stream");
  }
  ServerResponse response;
  const auto client = Find(request, &response);
  if (client == nullptr) return response;
  response = EventStream();
  response.stream = [this, client, gone = request.is_client_gone](
                        const net::StreamWriter& write) {
    const int mine = ++client->streams_begun;
    ++client->streams_open;
    // At once, so that the client sees its stream open.
    bool ok = write(": \n\n");
    if (ok) {
      ok = WriteEvents(&client->outbox, write, options_.heartbeat, [&] {
        return draining_ || client->streams_begun != mine || gone();
      });
    }
    --client->streams_open;
    client->Touch();
    return ok;
  };
  return response;
}

ServerResponse HttpFront::Delete(const ServerRequest& request) {
  ServerResponse response;
  const auto client = Find(request, &response);
  if (client == nullptr) return response;
  {
    MutexLock lock(mutex_);
    clients_.erase(client->id);
  }
  client->session.CancelAll();
  client->outbox.Close();
  return response;
}

void HttpFront::SetDraining() { draining_ = true; }

}  // namespace nexus::gateway
