#include "nexus/net/http_client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "httplib.h"

#include "nexus/base/clock.h"

namespace nexus::net {
namespace {

using std::chrono::milliseconds;

// A stream without a deadline (SSE) may be silent for as long as it likes.
constexpr int kNoTimeoutMs = 7 * 24 * 3600 * 1000;
constexpr size_t kMaxIdleConnections = 4;

char LowerAscii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// A line end inside a header would let its author add headers of their own.
Status CheckHeaders(const HttpHeaders& headers, const std::string& url) {
  for (const auto& [name, value] : headers) {
    const bool bad_name =
        name.empty() || std::any_of(name.begin(), name.end(), [](char c) {
          return c <= 0x20 || c >= 0x7F || c == ':';
        });
    const bool bad_value =
        value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos;
    if (bad_name || bad_value) {
      return InvalidArgumentError(url + ": header '" + (bad_name ? "?" : name) +
                                  "' has a byte that HTTP doesn't allow");
    }
  }
  return {};
}

HttpHeaders ReadHeaders(const httplib::Headers& from) {
  HttpHeaders headers;
  for (const auto& [name, value] : from) headers.emplace(name, value);
  return headers;
}

// Ends a request from outside once `should_end` says so: cpp-httplib only looks
// at the world when bytes arrive, and its own overall limit starts anew with
// each piece of a chunked body, so a second thread shuts the socket down.
class Watcher {
 public:
  Watcher(httplib::Client& client, std::function<bool()> should_end)
      : thread_([this, &client, should_end = std::move(should_end)] {
          constexpr milliseconds kPollInterval{10};
          std::unique_lock lock(mutex_);
          while (!done_.wait_for(lock, kPollInterval, [&] { return stop_; })) {
            // Again and again: the request may not have had its socket yet.
            if (should_end()) client.stop();
          }
        }) {}
  ~Watcher() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    done_.notify_one();
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  bool stop_ = false;
  std::thread thread_;
};

const char* MethodName(HttpRequest::Method method) {
  switch (method) {
    case HttpRequest::Method::kGet:
      return "GET";
    case HttpRequest::Method::kPost:
      return "POST";
    case HttpRequest::Method::kDelete:
      return "DELETE";
  }
  return "GET";
}

}  // namespace

bool HeaderNameLess::operator()(std::string_view a, std::string_view b) const {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](char x, char y) { return LowerAscii(x) < LowerAscii(y); });
}

Result<HttpUrl> ParseHttpUrl(std::string_view url) {
  const auto bad = [&](std::string_view reason) {
    return InvalidArgumentError("URL '" + std::string(url) +
                                "': " + std::string(reason));
  };
  if (std::any_of(url.begin(), url.end(), [](char c) {
        return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F;
      })) {
    return bad("has a space or a control character");
  }
  HttpUrl parsed;
  const size_t scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) {
    return bad("expected http:// or https:// at the start");
  }
  for (const char c : url.substr(0, scheme_end)) {
    parsed.scheme += LowerAscii(c);
  }
  if (parsed.scheme != "http" && parsed.scheme != "https") {
    return bad("only http and https are supported");
  }
  std::string_view rest = url.substr(scheme_end + 3);
  rest = rest.substr(0, std::min(rest.find('#'), rest.size()));
  const size_t path_start = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, path_start);
  parsed.path = rest.substr(path_start);
  if (!parsed.path.starts_with('/')) parsed.path.insert(0, 1, '/');
  if (authority.find('@') != std::string_view::npos) {
    return bad("has a user name in it; send an Authorization header instead");
  }
  std::string_view port_text;
  if (authority.starts_with('[')) {
    const size_t close = authority.find(']');
    if (close == std::string_view::npos) return bad("'[' without ']'");
    parsed.host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
    if (!authority.empty() && !authority.starts_with(':')) {
      return bad("expected ':' after ']'");
    }
    if (!authority.empty()) port_text = authority.substr(1);
    if (authority == ":") return bad("the port is empty");
  } else {
    const size_t colon = std::min(authority.find(':'), authority.size());
    parsed.host = authority.substr(0, colon);
    if (colon + 1 == authority.size()) return bad("the port is empty");
    if (colon < authority.size()) port_text = authority.substr(colon + 1);
  }
  if (parsed.host.empty()) return bad("has no host");
  parsed.port = parsed.scheme == "https" ? 443 : 80;
  if (port_text.empty()) return parsed;
  int port = 0;
  for (const char c : port_text) {
    if (c < '0' || c > '9' || port > 65535) return bad("has a bad port");
    port = port * 10 + (c - '0');
  }
  if (port < 1 || port > 65535) return bad("has a bad port");
  parsed.port = port;
  return parsed;
}

struct HttpClient::Impl {
  HttpUrl url;
  HttpClientOptions options;
  std::mutex mutex;
  std::vector<std::unique_ptr<httplib::Client>> idle;  // guarded by mutex

  std::unique_ptr<httplib::Client> Take() {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        auto client = std::move(idle.back());
        idle.pop_back();
        return client;
      }
    }
    const std::string host = url.host.find(':') == std::string::npos
                                 ? url.host
                                 : "[" + url.host + "]";
    auto client = std::make_unique<httplib::Client>(
        url.scheme + "://" + host + ":" + std::to_string(url.port));
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    client->set_path_encode(false);
    client->set_follow_location(false);
    client->set_connection_timeout(milliseconds(options.connect_timeout_ms));
    // The limits are ours: one for the body, and another for a stream.
    client->set_payload_max_length(static_cast<size_t>(-1));
    return client;
  }

  void GiveBack(std::unique_ptr<httplib::Client> client) {
    const std::lock_guard lock(mutex);
    if (idle.size() < kMaxIdleConnections) idle.push_back(std::move(client));
  }
};

HttpClient::HttpClient(std::string url, std::unique_ptr<Impl> impl)
    : url_(std::move(url)), impl_(std::move(impl)) {}
HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::Create(
    std::string_view url, const HttpClientOptions& options) {
  auto impl = std::make_unique<Impl>();
  NEXUS_ASSIGN_OR_RETURN(impl->url, ParseHttpUrl(url));
  impl->options = options;
  NEXUS_RETURN_IF_ERROR(CheckHeaders(options.headers, std::string(url)));
  return std::unique_ptr<HttpClient>(
      new HttpClient(std::string(url), std::move(impl)));
}

Result<HttpResponse> HttpClient::Send(const HttpRequest& request) {
  NEXUS_RETURN_IF_ERROR(CheckHeaders(request.headers, url_));
  const Clock& clock = Clock::Monotonic();
  const auto start = clock.Now();
  const int timeout_ms =
      request.timeout_ms > 0 ? request.timeout_ms : kNoTimeoutMs;
  const auto cancelled = [&] {
    return request.should_cancel != nullptr && request.should_cancel();
  };
  const auto expired = [&] {
    return request.timeout_ms > 0 &&
           clock.Now() - start >= milliseconds(request.timeout_ms);
  };
  if (cancelled()) return CancelledError(url_ + ": cancelled");

  httplib::Request raw;
  raw.method = MethodName(request.method);
  raw.path = request.path.empty() ? impl_->url.path : request.path;
  HttpHeaders headers = request.headers;
  headers.insert(impl_->options.headers.begin(), impl_->options.headers.end());
  for (const auto& [name, value] : headers) raw.headers.emplace(name, value);
  if (request.method == HttpRequest::Method::kPost) {
    raw.body = request.body;
    if (!headers.contains("Content-Type")) {
      raw.headers.emplace("Content-Type", request.content_type);
    }
  }

  HttpResponse response;
  size_t received = 0;
  bool too_large = false;
  bool stopped = false;    // by a callback
  int interim_status = 0;  // of an answer before the answer
  const auto take_head = [&](const httplib::Response& head) {
    response.status = head.status;
    response.headers = ReadHeaders(head.headers);
    stopped = request.on_headers != nullptr &&
              !request.on_headers(response.status, response.headers);
    return !stopped;
  };
  // Exceptions of a callback mustn't unwind through cpp-httplib's frames
  // half-way into a connection that goes back to the pool.
  raw.response_handler = [&](const httplib::Response& head) {
    // cpp-httplib skips 100; of any other it would take the answer behind it
    // for the body.
    if (head.status < 200) {
      interim_status = head.status;
      return false;
    }
    return take_head(head);
  };
  raw.content_receiver = [&](const char* data, size_t size, size_t, size_t) {
    if (cancelled()) return false;
    received += size;
    if (received > request.max_body_bytes) {
      too_large = true;
      return false;
    }
    if (request.on_data == nullptr) {
      response.body.append(data, size);
    } else {
      stopped = !request.on_data({data, size});
    }
    return !stopped;
  };

  auto client = impl_->Take();
  client->set_read_timeout(milliseconds(timeout_ms));
  client->set_write_timeout(milliseconds(timeout_ms));
  httplib::Error error = httplib::Error::Unknown;
  std::string exception;
  try {
    const Watcher watcher(*client, [&] { return cancelled() || expired(); });
    const auto sent = client->send(raw);
    error = sent.error();
    // It shows a head to the handler only where a body may follow: not of 204.
    if (sent && response.status == 0) take_head(*sent);
  } catch (const std::exception& e) {
    exception = e.what();
  } catch (...) {
    exception = "unknown exception";
  }
  if (error == httplib::Error::Success && exception.empty() && !stopped) {
    // A server that sends a body all the same would have it read as the head of
    // the next answer.
    const bool may_be_read_on =
        response.status != 204 && response.status != 304;
    if (may_be_read_on) impl_->GiveBack(std::move(client));
    return response;
  }
  if (interim_status != 0) {
    return UnavailableError(url_ + ": HTTP " + std::to_string(interim_status) +
                            " ahead of the answer, which isn't supported");
  }
  if (too_large) {
    return ResourceExhaustedError(url_ + ": the answer is over " +
                                  std::to_string(request.max_body_bytes) +
                                  " bytes");
  }
  if (cancelled() || stopped) return CancelledError(url_ + ": cancelled");
  if (expired()) {
    return DeadlineExceededError(url_ + ": no whole answer after " +
                                 std::to_string(request.timeout_ms) + " ms");
  }
  if (!exception.empty()) {
    return InternalError(url_ + ": cpp-httplib: " + exception);
  }
  return UnavailableError(url_ + ": " + httplib::to_string(error) +
                          "; is the server running at " + impl_->url.host +
                          ":" + std::to_string(impl_->url.port) + "?");
}

}  // namespace nexus::net
