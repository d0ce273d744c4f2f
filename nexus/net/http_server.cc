#include "nexus/net/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "httplib.h"

#include "nexus/base/hash.h"
#include "nexus/base/mutex.h"
#include "nexus/net/connection_parker.h"
#include "nexus/net/connection_stream.h"
#include "nexus/net/origin_rules.h"
#include "nexus/net/peer_socket.h"
#include "nexus/net/worker_pool.h"

namespace nexus::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ServeConnection = std::function<void(UniqueFd)>;

// Who is refused is waited for, so that the answer arrives: a second at most,
// a round trip as a rule.
constexpr size_t kRefusalThreads = 4;
constexpr char kStopping[] = "the server is shutting down";
constexpr char kTooMany[] = "too many requests at once; try again";

// Neither content nor length of the token shows in the time this takes.
bool HasToken(const httplib::Request& request, const Sha256Digest& wanted) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string header = request.get_header_value("Authorization");
  if (!std::string_view(header).starts_with(kBearer)) return false;
  const Sha256Digest given =
      Sha256Of(std::string_view(header).substr(kBearer.size()));
  unsigned different = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    different |= static_cast<unsigned>(given[i] ^ wanted[i]);
  }
  return different == 0;
}

// The request at work on this thread and the answer just written for it.
// cpp-httplib hands them to its handlers, and they are wanted behind those.
struct AnswerNotes {
  std::string id;
  std::string method;
  std::string path;
  int status = 0;  // 0: no answer was written
  // It said that the connection ends with it, as cpp-httplib's do after an
  // error; its own loop reads it from there.
  bool closes = false;
  size_t reserved = 0;  // of HttpServerOptions::max_bodies_bytes
};
thread_local AnswerNotes answer_notes;

// The beginning differs between processes, so that one log may hold many.
std::string NewRequestId() {
  static const std::string process = [] {
    std::random_device device;
    char text[32];
    std::snprintf(text, sizeof text, "req_%08x-", device());
    return std::string(text);
  }();
  static std::atomic<uint64_t> count{0};
  return process + std::to_string(++count);
}

// Runs what the accept loop hands out on that loop's thread: it only parks.
class InlineQueue : public httplib::TaskQueue {
 public:
  bool enqueue(std::function<void()> task) override {
    task();
    return true;
  }
  void shutdown() override {}
};

void SetHeaders(const HttpHeaders& headers, httplib::Response& out) {
  for (const auto& [name, value] : headers) out.set_header(name, value);
}

// cpp-httplib's server without its connection loop.
class RawServer : public httplib::Server {
 public:
  explicit RawServer(ServeConnection on_accept)
      : on_accept_(std::move(on_accept)) {}

  // False: the connection must be closed.
  bool ServeOne(ConnectionStream& stream, const Connection& connection,
                bool is_last,
                const std::function<void(httplib::Request&)>& on_headers) {
    return serve_guarded([&] {
      bool close = false;
      answer_notes = {};
      answer_notes.id = NewRequestId();
      const bool ok =
          process_request(stream, connection.peer, connection.peer_port, "", 0,
                          is_last, close, on_headers);
      return ok && !close && !answer_notes.closes && !is_last;
    });
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    on_accept_(UniqueFd(socket));
    return true;
  }

  ServeConnection on_accept_;
};

}  // namespace

struct HttpServer::Impl {
  Impl(HttpServerOptions all_options, Handler request_handler)
      : options(std::move(all_options)),
        max_connections(ConnectionLimit(options.max_connections)),
        token(Sha256Of(options.bearer_token)),
        origins({.allowed = options.allowed_origins,
                 .own_host =
                     options.own_host_pages && !options.bearer_token.empty()}),
        handler(std::move(request_handler)),
        raw([this](UniqueFd fd) { Accept(std::move(fd)); }),
        pool(options.max_active),
        parker({.max_header_bytes = options.max_header_bytes,
                .header_timeout = milliseconds(options.header_timeout_ms),
                .idle_timeout = milliseconds(options.idle_timeout_ms),
                .on_ready = [this](std::unique_ptr<Connection> connection,
                                   bool too_large) {
                  Dispatch(std::move(connection), too_large);
                }}) {}

  const HttpServerOptions options;
  const size_t max_connections;
  const Sha256Digest token;
  const OriginRules origins;
  const Handler handler;
  std::atomic<bool> stopping{false};
  std::atomic<bool> cut{false};
  std::atomic<size_t> bodies{0};  // bytes
  mutable Mutex mutex;
  CondVar one_less;
  std::set<int> active GUARDED_BY(mutex);  // sockets with a request at work
  // Behind everything that its threads use.
  RawServer raw;
  WorkerPool pool;
  WorkerPool refusals{kRefusalThreads};
  ConnectionParker parker;
  std::thread acceptor;
  int port = 0;

  std::string ErrorBody(int status, std::string_view message) const {
    if (options.error_body) return options.error_body(status, message);
    return std::string(message) + "\n";
  }

  void Accept(UniqueFd fd) {
    if (counts().connections >= max_connections) return;
    auto connection = std::make_unique<Connection>();
    PeerOf(fd.get(), &connection->peer, &connection->peer_port);
    connection->fd = std::move(fd);
    if (stopping) return TurnAway(std::move(connection), kStopping);
    parker.Add(std::move(connection));
  }

  // An answer without cpp-httplib: nothing of the request was read.
  std::string Refusal(int status, std::string_view message) const {
    const std::string body = ErrorBody(status, message);
    return "HTTP/1.1 " + std::to_string(status) + " " +
           httplib::status_message(status) +
           "\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) +
           (status == 503 ? "\r\nRetry-After: 1" : "") +
           "\r\nConnection: close\r\n\r\n" + body;
  }

  void Refuse(std::unique_ptr<Connection> connection, int status,
              std::string_view message) {
    const std::string text = Refusal(status, message);
    ConnectionStream stream({.fd = connection->fd.get(),
                             .peer = {},
                             .write_timeout = milliseconds(1000)});
    if (stream.write(text.data(), text.size()) > 0) {
      CloseGently(std::move(connection->fd));
    }
  }

  void Dispatch(std::unique_ptr<Connection> connection, bool too_large) {
    // std::function wants a copyable task.
    const std::shared_ptr<Connection> shared = std::move(connection);
    bool full = false;
    {
      MutexLock lock(mutex);
      full = active.size() >= options.max_active;
      if (!full) active.insert(shared->fd.get());
    }
    auto task = [this, shared, too_large] {
      const int fd = shared->fd.get();
      auto mine = std::make_unique<Connection>(std::move(*shared));
      if (too_large) {
        // First: once closed, the descriptor may be another connection's.
        Leave(fd);
        Refuse(std::move(mine), 431,
               "the request's headers are over " +
                   std::to_string(options.max_header_bytes) + " bytes");
        return;
      }
      mine = Serve(std::move(mine), fd);
      if (mine != nullptr) parker.Add(std::move(mine));
    };
    if (!full) {
      if (pool.Start(std::move(task))) return;
      Leave(shared->fd.get());
    }
    TurnAway(shared, stopping ? kStopping : kTooMany);
  }

  // 503, without waiting for anything here.
  void TurnAway(const std::shared_ptr<Connection>& shared,
                const char* message) {
    const auto refuse = [this, shared, message] {
      Refuse(std::make_unique<Connection>(std::move(*shared)), 503, message);
    };
    if (refusals.Start(refuse)) return;
    // Of a flood some lose the answer, when more of their request comes.
    const std::string text = Refusal(503, message);
    [[maybe_unused]] const ssize_t sent =
        ::send(shared->fd.get(), text.data(), text.size(),
               MSG_DONTWAIT | MSG_NOSIGNAL);
    DropReceived(shared->fd.get());
  }

  void Leave(int fd) {
    MutexLock lock(mutex);
    active.erase(fd);
    one_less.NotifyAll();
  }

  // Null: the connection is closed.
  std::unique_ptr<Connection> Serve(std::unique_ptr<Connection> connection,
                                    int fd) {
    bool keep = true;
    {
      ConnectionStream stream(
          {.fd = fd,
           .peer = connection->peer,
           .peer_port = connection->peer_port,
           .write_timeout = milliseconds(options.write_timeout_ms)});
      do {
        stream.SetReadDeadline(milliseconds(options.header_timeout_ms));
        const bool is_last =
            ++connection->served >= options.max_requests_per_connection ||
            stopping;
        const auto start = steady_clock::now();
        keep =
            raw.ServeOne(stream, *connection, is_last, [&](httplib::Request&) {
              stream.SetReadDeadline(milliseconds(options.body_timeout_ms));
            });
        bodies -= answer_notes.reserved;
        ReportAnswer(connection->peer, steady_clock::now() - start);
      } while (keep && stream.has_buffered());
    }
    // Before the descriptor can be closed and given to another connection.
    Leave(fd);
    if (keep) return connection;
    CloseGently(std::move(connection->fd));
    return nullptr;
  }

  void ReportAnswer(const std::string& peer,
                    steady_clock::duration duration) const {
    if (!options.on_answered || answer_notes.status == 0) return;
    options.on_answered(
        {.id = std::move(answer_notes.id),
         .method = std::move(answer_notes.method),
         .path = std::move(answer_notes.path),
         .peer = peer,
         .status = answer_notes.status,
         .duration_ms =
             std::chrono::duration<double, std::milli>(duration).count()});
  }

  HttpServerCounts counts() const {
    MutexLock lock(mutex);
    return {.connections = parker.size() + active.size(),
            .active = active.size()};
  }

  // What its body may take; false: there is no room for it.
  bool ReserveBody(const httplib::Request& request) {
    size_t bytes = 0;
    if (request.has_header("Content-Length")) {
      bytes = request.get_header_value_u64("Content-Length");
      bytes = std::min(bytes, options.max_body_bytes);  // more is 413
    } else if (request.has_header("Transfer-Encoding")) {
      bytes = options.max_body_bytes;
    }
    size_t held = bodies;
    do {
      const bool is_alone = held == 0 || bytes == 0;
      if (!is_alone && held + bytes > options.max_bodies_bytes) return false;
    } while (!bodies.compare_exchange_weak(held, held + bytes));
    answer_notes.reserved = bytes;
    return true;
  }

  // 0: let it through.
  int Admit(const httplib::Request& request, std::string_view* message) {
    if (!origins.Admits(request.get_header_value("Origin"),
                        request.get_header_value("Host"))) {
      *message = "requests from other sites' pages aren't allowed";
      return 403;
    }
    const bool is_open =
        options.bearer_token.empty() ||
        std::find(options.open_paths.begin(), options.open_paths.end(),
                  request.path) != options.open_paths.end();
    if (!is_open && !HasToken(request, token)) {
      *message = "a valid API key is needed: send 'Authorization: Bearer KEY'";
      return 401;
    }
    if (!ReserveBody(request)) {
      *message = "the bodies of the requests at work take all room; try again";
      return 503;
    }
    return 0;
  }

  // False: it isn't one, or not of an allowed origin.
  bool AnswerPreflight(const httplib::Request& in,
                       httplib::Response& out) const {
    if (!in.has_header("Access-Control-Request-Method")) return false;
    const HttpHeaders headers = origins.PreflightHeaders(
        in.get_header_value("Origin"),
        in.get_header_value("Access-Control-Request-Headers"));
    if (headers.empty()) return false;
    SetHeaders(headers, out);
    out.status = 204;
    return true;
  }

  void Handle(const httplib::Request& in, httplib::Response& out) {
    ServerRequest request;
    request.id = answer_notes.id;
    request.method = in.method;
    request.path = in.path;
    for (const auto& [name, value] : in.headers) {
      request.headers.emplace(name, value);
    }
    request.body = in.body;
    request.peer = in.remote_addr;
    request.is_client_gone = [this, gone = in.is_connection_closed] {
      return cut || gone();
    };
    ServerResponse response = handler(request);
    out.status = response.status;
    SetHeaders(response.headers, out);
    if (response.stream == nullptr) {
      out.set_content(response.body, response.content_type);
      return;
    }
    out.set_chunked_content_provider(
        response.content_type, [this, stream = std::move(response.stream)](
                                   size_t, httplib::DataSink& sink) {
          const bool ok = stream([&](std::string_view bytes) {
            return !cut && sink.write(bytes.data(), bytes.size());
          });
          if (ok) sink.done();
          return ok;
        });
  }

  void Configure() {
    raw.new_task_queue = [] { return new InlineQueue(); };
    raw.set_tcp_nodelay(true);
    raw.set_payload_max_length(options.max_body_bytes);
    raw.set_keep_alive_timeout(options.idle_timeout_ms / 1000);
    raw.set_keep_alive_max_count(
        static_cast<size_t>(options.max_requests_per_connection));
    raw.set_pre_routing_handler(
        [this](const httplib::Request& in, httplib::Response& out) {
          // Without a token: browsers send none here.
          if (in.method == "OPTIONS" && AnswerPreflight(in, out)) {
            return httplib::Server::HandlerResponse::Handled;
          }
          std::string_view message;
          const int status = Admit(in, &message);
          if (status == 0) return httplib::Server::HandlerResponse::Unhandled;
          out.status = status;
          if (status == 401) out.set_header("WWW-Authenticate", "Bearer");
          if (status == 503) out.set_header("Retry-After", "1");
          out.set_content(ErrorBody(status, message), "application/json");
          return httplib::Server::HandlerResponse::Handled;
        });
    raw.set_post_routing_handler(
        [this](const httplib::Request& in, httplib::Response& out) {
          SetHeaders(origins.AnswerHeaders(in.get_header_value("Origin")), out);
          answer_notes.method = in.method;
          answer_notes.path = in.path;
          answer_notes.status = out.status;
          answer_notes.closes = out.get_header_value("Connection") == "close";
          out.set_header("X-Request-Id", answer_notes.id);
        });
    // The default shares the port with any other server of this user.
    raw.set_socket_options([](socket_t socket) {
      const int on = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    });
    // What cpp-httplib itself refuses comes without a body.
    raw.set_error_handler(
        [this](const httplib::Request& in, httplib::Response& out) {
          if (!out.body.empty() || out.content_provider_ != nullptr) return;
          std::string message = httplib::status_message(out.status);
          if (out.status == 413) {
            message = "the body is over " +
                      std::to_string(options.max_body_bytes) + " bytes";
          } else if (out.status == 404) {
            message = "no such method and path: " + in.method + " " + in.path;
          } else if (out.status == 400) {
            message = "the request isn't whole and correct HTTP";
          }
          out.set_content(ErrorBody(out.status, message), "application/json");
        });
    raw.set_exception_handler([this](const httplib::Request&,
                                     httplib::Response& out,
                                     const std::exception_ptr&) {
      out.status = 500;
      out.set_content(ErrorBody(500, "internal error"), "application/json");
    });
    const auto handle = [this](const httplib::Request& in,
                               httplib::Response& out) { Handle(in, out); };
    raw.Get(".*", handle).Post(".*", handle).Delete(".*", handle);
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpServerOptions& options, Handler handler) {
  auto impl = std::make_unique<Impl>(options, std::move(handler));
  impl->Configure();
  if (options.port == 0) {
    impl->port = impl->raw.bind_to_any_port(options.host);
  } else if (impl->raw.bind_to_port(options.host, options.port)) {
    impl->port = options.port;
  } else {
    impl->port = -1;
  }
  if (impl->port <= 0) {
    return UnavailableError(
        "can't listen on " + options.host + ":" + std::to_string(options.port) +
        ": the port is taken, or the address isn't this machine's; choose "
        "another with --port");
  }
  impl->acceptor =
      std::thread([raw = &impl->raw] { raw->listen_after_bind(); });
  impl->raw.wait_until_ready();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() { Stop(0); }

int HttpServer::port() const { return impl_->port; }

std::string HttpServer::Url(std::string_view path) const {
  const std::string& host = impl_->options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return "http://" + (is_v6 ? "[" + host + "]" : host) + ":" +
         std::to_string(impl_->port) + std::string(path);
}

HttpServerCounts HttpServer::counts() const { return impl_->counts(); }

size_t HttpServer::Stop(int drain_ms) {
  Impl& impl = *impl_;
  if (!impl.acceptor.joinable()) return 0;
  impl.stopping = true;
  impl.parker.Close();
  const auto deadline = steady_clock::now() + milliseconds(drain_ms);
  size_t left = 0;
  {
    MutexLock lock(impl.mutex);
    while (!impl.active.empty() && impl.one_less.WaitUntil(lock, deadline)) {
    }
    left = impl.active.size();
    impl.cut = true;
    for (const int fd : impl.active) ::shutdown(fd, SHUT_RDWR);
  }
  // Ends cpp-httplib's streams too, so only now.
  impl.raw.stop();
  impl.acceptor.join();
  impl.pool.Shutdown();
  impl.refusals.Shutdown();
  return left;
}

}  // namespace nexus::net
