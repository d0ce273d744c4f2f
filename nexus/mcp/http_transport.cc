#include "nexus/mcp/http_transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/json.h"
#include "nexus/mcp/request_headers.h"
#include "nexus/net/http_client.h"
#include "nexus/net/sse.h"

namespace nexus::mcp {
namespace {

using net::HttpHeaders;
using net::HttpRequest;
using net::HttpResponse;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();
constexpr int kDefaultRetryMs = 1000;
constexpr int kMaxRetryMs = 30000;
// How long a stream may stay open after its answer before it is cut: long
// enough for the end of a well-behaved one, which keeps the connection usable.
constexpr int kStreamEndMs = 50;

std::string HeaderOf(const HttpHeaders& headers, std::string_view name) {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

// "text/event-stream; charset=utf-8" -> "text/event-stream".
std::string MediaType(const HttpHeaders& headers) {
  std::string type = HeaderOf(headers, "Content-Type");
  type.resize(std::min(type.find(';'), type.size()));
  while (type.ends_with(' ')) type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return type;
}

std::string Excerpt(const std::string& body) {
  constexpr size_t kMaxBytes = 200;
  std::string excerpt = body.substr(0, kMaxBytes);
  return body.size() > kMaxBytes ? excerpt + "..." : excerpt;
}

// What came back for one POST or GET.
struct Exchange {
  HttpResponse head;
  bool is_stream = false;
  std::string last_event_id;
  int retry_ms = kDefaultRetryMs;
};

class HttpTransport final : public Transport {
 public:
  HttpTransport(std::unique_ptr<net::HttpClient> client,
                const HttpTransportOptions& options)
      : client_(std::move(client)),
        max_message_bytes_(options.max_message_bytes),
        hurry_(options.hurry) {}

  ~HttpTransport() override { Shutdown(); }

  Status Start(Handlers handlers) override {
    handlers_ = std::move(handlers);
    return {};
  }

  Status Send(std::string_view message, const SendOptions& options) override {
    const nanoseconds deadline =
        Clock::Monotonic().Now() + milliseconds(options.timeout_ms);
    HttpRequest request{.method = HttpRequest::Method::kPost,
                        .headers = CommonHeaders(),
                        .body = std::string(message)};
    request.headers["Accept"] = "application/json, text/event-stream";
    // The stateless revision wants it on requests; no revision on others.
    if (!options.method.empty() && options.answered != nullptr) {
      request.headers[kMethodHeader] = options.method;
    }
    if (!options.tool_name.empty()) {
      request.headers[kNameHeader] = EncodeHeaderText(options.tool_name);
    }
    for (const auto& [name, value] : options.headers) {
      request.headers[name] = value;
    }
    Exchange exchange;
    Status status = Perform(std::move(request), options, deadline, &exchange);
    const auto answered = [&] {
      return options.answered != nullptr && options.answered();
    };
    if (answered()) status = {};
    if (status.ok()) status = CheckStatus(exchange, options);
    // A stream may end before its answer: the server lets the connection go
    // and keeps the answer for whoever comes back with the last event's id.
    while (exchange.is_stream && options.answered != nullptr && !answered() &&
           !exchange.last_event_id.empty() &&
           (status.ok() || status.code() == StatusCode::kUnavailable)) {
      status = Resume(options, deadline, &exchange);
    }
    if (status.ok() && options.method == "notifications/initialized") {
      StartListener();
    }
    return status;
  }

  void SetProtocolVersion(const std::string& version) override {
    const std::lock_guard lock(mutex_);
    protocol_version_ = version;
  }

  Status Close() override {
    Shutdown();
    return {};
  }

  std::string Diagnostics() const override { return {}; }

 private:
  HttpHeaders CommonHeaders() const {
    const std::lock_guard lock(mutex_);
    HttpHeaders headers;
    if (!session_id_.empty()) headers["Mcp-Session-Id"] = session_id_;
    if (!protocol_version_.empty()) {
      headers[kVersionHeader] = protocol_version_;
    }
    return headers;
  }

  // Sends and hands every JSON-RPC text of the answer on, as it comes.
  Status Perform(HttpRequest request, const SendOptions& options,
                 nanoseconds deadline, Exchange* exchange) {
    const Clock& clock = Clock::Monotonic();
    const nanoseconds left = deadline - clock.Now();
    if (left <= nanoseconds::zero()) {
      return DeadlineExceededError(client_->url() + ": no answer in time");
    }
    request.timeout_ms = std::max(1, static_cast<int>(Milliseconds(left)));
    request.max_body_bytes = kUnbounded;  // bounded below, per message
    std::atomic<int64_t> answered_at{0};
    request.should_cancel = [&] {
      if (closing_) return true;
      if (options.cancel != nullptr && *options.cancel) return true;
      const int64_t at = answered_at;
      return at != 0 &&
             clock.Now() - nanoseconds(at) > milliseconds(kStreamEndMs);
    };
    net::SseParser parser(
        [&](const net::SseEvent& event) {
          // An empty event only carries the id to resume from.
          if (!event.data.empty()) handlers_.on_message(event.data);
          if (answered_at == 0 && options.answered != nullptr &&
              options.answered()) {
            answered_at = clock.Now().count();
          }
          return true;
        },
        max_message_bytes_);
    std::string body;
    Status parse_status;
    request.on_headers = [&](int status, const HttpHeaders& headers) {
      exchange->head.status = status;
      exchange->head.headers = headers;
      exchange->is_stream =
          status == 200 && MediaType(headers) == "text/event-stream";
      KeepSession(headers);
      return true;
    };
    request.on_data = [&](std::string_view bytes) {
      if (exchange->is_stream) {
        parse_status = parser.Feed(bytes);
      } else if (body.size() + bytes.size() > max_message_bytes_) {
        parse_status = ResourceExhaustedError(
            "the answer is over " + std::to_string(max_message_bytes_) +
            " bytes");
      } else {
        body.append(bytes);
      }
      return parse_status.ok();
    };
    const auto sent = client_->Send(request);
    if (!parser.last_event_id().empty()) {
      exchange->last_event_id = parser.last_event_id();
    }
    exchange->retry_ms =
        std::min(parser.retry_ms().value_or(exchange->retry_ms), kMaxRetryMs);
    exchange->head.body = std::move(body);
    if (!parse_status.ok()) return parse_status.WithContext(client_->url());
    if (!sent.ok()) return sent.status();
    const std::string type = MediaType(exchange->head.headers);
    if (!exchange->is_stream && !exchange->head.body.empty() &&
        type.ends_with("json")) {
      handlers_.on_message(exchange->head.body);
    }
    return {};
  }

  Status Resume(const SendOptions& options, nanoseconds deadline,
                Exchange* exchange) {
    const Clock& clock = Clock::Monotonic();
    const nanoseconds resume_at =
        std::min(deadline, clock.Now() + milliseconds(exchange->retry_ms));
    while (clock.Now() < resume_at) {
      if (closing_ || (options.cancel != nullptr && *options.cancel)) {
        return CancelledError(client_->url() + ": cancelled");
      }
      std::this_thread::sleep_for(milliseconds(5));
    }
    HttpRequest request{.headers = CommonHeaders()};
    request.headers["Accept"] = "text/event-stream";
    request.headers["Last-Event-ID"] = exchange->last_event_id;
    exchange->is_stream = false;
    NEXUS_RETURN_IF_ERROR(
        Perform(std::move(request), options, deadline, exchange));
    if (exchange->is_stream) return {};
    return UnavailableError(
        client_->url() + ": the stream broke before the answer, and HTTP " +
        std::to_string(exchange->head.status) + " came when resuming it");
  }

  Status CheckStatus(const Exchange& exchange, const SendOptions& options) {
    const int status = exchange.head.status;
    const std::string what =
        client_->url() + ": HTTP " + std::to_string(status);
    const bool answered = options.answered != nullptr && options.answered();
    if (answered) return {};
    if (status == 404 && !CommonHeaders()["Mcp-Session-Id"].empty()) {
      Status expired = UnavailableError(
          what + ": the server has ended the session; connect again");
      if (!reported_closed_.exchange(true)) handlers_.on_closed(expired);
      return expired;
    }
    // Only with a handshake there is another stream for the answer to come on.
    if (exchange.is_stream && !options.method.empty() &&
        options.answered != nullptr) {
      return UnavailableError(what + ": the stream ended without the answer");
    }
    if (status >= 200 && status < 300) {
      const std::string type = MediaType(exchange.head.headers);
      if (options.answered == nullptr || exchange.is_stream ||
          type.ends_with("json")) {
        return {};
      }
      return UnavailableError(what + " without an answer (content type '" +
                              type + "'); is this the URL of an MCP endpoint?");
    }
    const std::string detail = exchange.head.body.empty()
                                   ? std::string()
                                   : ": " + Excerpt(exchange.head.body);
    if (status == 401 || status == 403) {
      return InvalidArgumentError(
          what + detail +
          "; add the credentials under \"headers\" in the configuration "
          "(\"Authorization\": \"Bearer ...\"); Nexus has no OAuth flow");
    }
    if (status == 404 || status == 405) {
      return NotFoundError(what + detail +
                           "; no MCP endpoint takes POST there (the older "
                           "HTTP+SSE transport isn't supported)");
    }
    if (status >= 300 && status < 400) {
      return InvalidArgumentError(what + ": redirected to '" +
                                  HeaderOf(exchange.head.headers, "Location") +
                                  "'; write that URL into the configuration");
    }
    if (status == 429 || status >= 500) {
      return UnavailableError(what + detail + "; try again later");
    }
    return InvalidArgumentError(what + detail);
  }

  void KeepSession(const HttpHeaders& headers) {
    const std::string id = HeaderOf(headers, "Mcp-Session-Id");
    if (id.empty()) return;
    const std::lock_guard lock(mutex_);
    if (session_id_.empty()) session_id_ = id;
  }

  void StartListener() {
    const std::lock_guard lock(mutex_);
    if (listener_.joinable() || closing_) return;
    try {
      listener_ = std::thread([this] { Listen(); });
    } catch (const std::system_error&) {
      // Calls work without it; only the server's own messages are missed.
    }
  }

  // What the server sends on its own: list_changed, pings, logging. Servers
  // may refuse it, and nothing else depends on it.
  void Listen() {
    constexpr int kMaxFailures = 5;
    Exchange exchange;
    for (int failures = 0; failures < kMaxFailures && !closing_;) {
      HttpRequest request{.headers = CommonHeaders(), .timeout_ms = 0};
      request.headers["Accept"] = "text/event-stream";
      if (!exchange.last_event_id.empty()) {
        request.headers["Last-Event-ID"] = exchange.last_event_id;
      }
      exchange.is_stream = false;
      constexpr auto kStreamLifetime = std::chrono::hours(24);
      const Status status =
          Perform(std::move(request), {},
                  Clock::Monotonic().Now() + kStreamLifetime, &exchange);
      if (!exchange.is_stream && status.ok()) return;  // 405 and the like
      failures = exchange.is_stream ? 0 : failures + 1;
      std::unique_lock lock(mutex_);
      listener_wake_.wait_for(lock, milliseconds(exchange.retry_ms),
                              [&] { return closing_.load(); });
    }
  }

  void Shutdown() {
    std::thread listener;
    {
      const std::lock_guard lock(mutex_);
      if (closing_.exchange(true)) return;
      listener = std::move(listener_);
    }
    listener_wake_.notify_all();
    if (listener.joinable()) listener.join();
    HttpRequest request{
        .method = HttpRequest::Method::kDelete,
        .headers = CommonHeaders(),
        .timeout_ms = hurry_ != nullptr && *hurry_ ? 200 : 2000};
    if (request.headers.contains("Mcp-Session-Id")) {
      // A courtesy: servers may refuse it (405) or be gone.
      [[maybe_unused]] const auto ignored = client_->Send(request);
    }
  }

  const std::unique_ptr<net::HttpClient> client_;
  const size_t max_message_bytes_;
  const std::atomic<bool>* const hurry_;
  Handlers handlers_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> reported_closed_{false};

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable listener_wake_;
  std::string session_id_;
  std::string protocol_version_;
  std::thread listener_;
};

}  // namespace

Result<std::unique_ptr<Transport>> NewHttpTransport(
    const HttpTransportOptions& options) {
  net::HttpClientOptions client_options{.connect_timeout_ms =
                                            options.connect_timeout_ms};
  client_options.headers.insert(options.headers.begin(), options.headers.end());
  NEXUS_ASSIGN_OR_RETURN(auto client,
                         net::HttpClient::Create(options.url, client_options));
  return std::unique_ptr<Transport>(
      std::make_unique<HttpTransport>(std::move(client), options));
}

}  // namespace nexus::mcp
