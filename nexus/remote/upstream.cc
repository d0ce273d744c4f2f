#include "nexus/remote/upstream.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/net/sse.h"

namespace nexus::remote {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// An error's body is for one message.
constexpr size_t kMaxErrorBytes = size_t{64} << 10;
// A stream's end mark is the end, whatever the connection does afterwards.
constexpr milliseconds kGraceAfterEnd{1000};

bool IsOfType(const net::HttpHeaders& headers, std::string_view part) {
  const auto found = headers.find("Content-Type");
  return found != headers.end() &&
         found->second.find(part) != std::string::npos;
}

std::string TypeText(const net::HttpHeaders& headers) {
  const auto found = headers.find("Content-Type");
  return found == headers.end() ? "no content type"
                                : "content type '" + found->second + "'";
}

bool HasChoices(const Json& object) {
  const auto choices = object.find("choices");
  return choices != object.end() && choices->is_array();
}

// JSON of the remote's. The parser's error quotes the text and cuts the quote,
// so it is made anew from one without `secret`.
Result<Json> ParseAnswer(std::string_view text, std::string_view what,
                         std::string_view secret) {
  const JsonLimits limits{.max_bytes = kMaxAnswerBytes};
  auto parsed = ParseJson(text, what, limits);
  if (parsed.ok()) return parsed;
  const auto told = ParseJson(Redacted(secret, text), what, limits);
  if (!told.ok()) return told.status();
  return InvalidArgumentError(std::string(what) + ": it is no JSON");
}

// The events of one stream, as they come. Used by one thread.
class StreamReader {
 public:
  StreamReader(std::string_view replica, std::string_view secret,
               const std::function<bool(Json&&)>& on_chunk)
      : replica_(replica),
        secret_(secret),
        on_chunk_(on_chunk),
        parser_([this](const net::SseEvent& event) { return OnEvent(event); },
                kMaxEventBytes) {}

  // False: there is no need for more.
  bool Feed(std::string_view bytes) {
    const Status fed = parser_.Feed(bytes);
    if (!fed.ok() && !error_.has_value() && !reader_gone_ && !ended_) {
      error_ = BadAnswer(replica_, fed.message());
    }
    return fed.ok();
  }

  bool ended() const { return ended_; }
  bool reader_gone() const { return reader_gone_; }
  // Some servers leave the end mark out: a reason to finish is as good.
  bool is_whole() const { return ended_ || finished_; }
  std::optional<RemoteError> TakeError() { return std::move(error_); }

 private:
  bool OnEvent(const net::SseEvent& event) {
    if (ended_) return true;
    if (event.data == "[DONE]") {
      ended_ = true;
      return true;
    }
    auto chunk = ParseAnswer(event.data, "event of the stream", secret_);
    if (!chunk.ok()) {
      error_ = BadAnswer(replica_, chunk.status().message());
      return false;
    }
    if (chunk->is_object()) {
      const auto error = chunk->find("error");
      if (error != chunk->end() && !error->is_null()) {
        error_ = FromErrorObject(replica_, *error);
        return false;
      }
    }
    if (!chunk->is_object() || !HasChoices(*chunk)) {
      error_ = BadAnswer(replica_, "an event of the stream is no chunk");
      return false;
    }
    for (const Json& choice : (*chunk)["choices"]) {
      if (!choice.is_object()) {
        error_ = BadAnswer(replica_, "a chunk's choice is no object");
        return false;
      }
      const auto reason = choice.find("finish_reason");
      if (reason != choice.end() && reason->is_string()) finished_ = true;
    }
    reader_gone_ = !on_chunk_(*std::move(chunk));
    return !reader_gone_;
  }

  const std::string_view replica_;
  const std::string_view secret_;
  const std::function<bool(Json&&)>& on_chunk_;
  net::SseParser parser_;
  std::optional<RemoteError> error_;
  bool ended_ = false;
  bool finished_ = false;
  bool reader_gone_ = false;
};

}  // namespace

Upstream::Upstream(const BackendUrl& url, std::string api_key,
                   std::unique_ptr<net::HttpClient> client)
    : url_(url), api_key_(std::move(api_key)), client_(std::move(client)) {}

Result<std::unique_ptr<Upstream>> Upstream::Create(
    const BackendUrl& url, const UpstreamOptions& options) {
  net::HttpClientOptions client_options;
  client_options.connect_timeout_ms =
      static_cast<int>(options.connect_timeout.count());
  if (!options.api_key.empty()) {
    client_options.headers["Authorization"] = "Bearer " + options.api_key;
  }
  NEXUS_ASSIGN_OR_RETURN(auto client,
                         net::HttpClient::Create(url.name, client_options));
  return std::unique_ptr<Upstream>(
      new Upstream(url, options.api_key, std::move(client)));
}

std::optional<RemoteError> Upstream::Complete(const Attempt& attempt,
                                              Json* whole) {
  auto error = attempt.is_stream ? CompleteStream(attempt)
                                 : CompleteWhole(attempt, whole);
  if (error.has_value()) Sanitize(api_key_, &*error);
  return error;
}

std::optional<RemoteError> Upstream::CompleteWhole(const Attempt& attempt,
                                                   Json* whole) {
  net::HttpRequest request;
  request.method = net::HttpRequest::Method::kPost;
  request.path = url_.chat_path;
  request.body = attempt.body;
  request.timeout_ms = static_cast<int>(attempt.timeout.count());
  request.max_body_bytes = kMaxAnswerBytes;
  request.should_cancel = attempt.should_cancel;
  const auto response = client_->Send(request);
  if (!response.ok()) return FromTransport(url_.name, response.status());
  if (response->status != 200) {
    return FromHttpAnswer(
        url_.name, response->status, response->headers,
        std::string_view(response->body).substr(0, kMaxErrorBytes));
  }
  if (!IsOfType(response->headers, "json")) {
    return BadAnswer(url_.name,
                     "expected JSON, found " + TypeText(response->headers));
  }
  auto parsed = ParseAnswer(response->body, "answer", api_key_);
  if (!parsed.ok()) return BadAnswer(url_.name, parsed.status().message());
  if (parsed->is_object()) {
    const auto error = parsed->find("error");
    if (error != parsed->end() && !error->is_null()) {
      return FromErrorObject(url_.name, *error);
    }
  }
  if (!parsed->is_object() || !HasChoices(*parsed)) {
    return BadAnswer(url_.name, "the answer is no chat completion");
  }
  *whole = *std::move(parsed);
  return std::nullopt;
}

std::optional<RemoteError> Upstream::CompleteStream(const Attempt& attempt) {
  const Clock& clock = Clock::Monotonic();
  // Written here, read by the client's watching thread too.
  std::atomic<int64_t> last_byte_ns{clock.Now().count()};
  std::atomic<bool> has_ended{false};
  std::atomic<bool> fell_silent{false};
  StreamReader reader(url_.name, api_key_, attempt.on_chunk);
  net::HttpHeaders headers;
  int status = 0;
  std::string error_body;

  net::HttpRequest request;
  request.method = net::HttpRequest::Method::kPost;
  request.path = url_.chat_path;
  request.headers["Accept"] = "text/event-stream";
  request.body = attempt.body;
  request.timeout_ms = static_cast<int>(attempt.timeout.count());
  request.max_body_bytes = kMaxAnswerBytes;
  request.should_cancel = [&] {
    if (attempt.should_cancel && attempt.should_cancel()) return true;
    const nanoseconds quiet = clock.Now() - nanoseconds(last_byte_ns.load());
    if (has_ended) return quiet > kGraceAfterEnd;
    if (attempt.silence.count() == 0 || quiet <= attempt.silence) return false;
    fell_silent = true;
    return true;
  };
  request.on_headers = [&](int code, const net::HttpHeaders& got) {
    status = code;
    headers = got;
    return true;
  };
  bool wrong_type = false;
  request.on_data = [&](std::string_view bytes) {
    last_byte_ns = clock.Now().count();
    if (status != 200) {
      error_body += bytes.substr(
          0, kMaxErrorBytes - std::min(kMaxErrorBytes, error_body.size()));
      return error_body.size() < kMaxErrorBytes;
    }
    wrong_type = !IsOfType(headers, "text/event-stream");
    if (wrong_type) return false;
    const bool goes_on = reader.Feed(bytes);
    has_ended = reader.ended();
    return goes_on;
  };
  const auto response = client_->Send(request);

  if (status != 0 && status != 200) {
    return FromHttpAnswer(url_.name, status, headers, error_body);
  }
  if (auto error = reader.TakeError()) return error;
  if (reader.ended()) return std::nullopt;
  if (reader.reader_gone()) {
    return FromTransport(url_.name, CancelledError("the client has gone"));
  }
  if (fell_silent) {
    return FromTransport(
        url_.name,
        DeadlineExceededError("no byte for " +
                              std::to_string(attempt.silence.count()) + " ms"));
  }
  if (wrong_type ||
      (status == 200 && !IsOfType(headers, "text/event-stream"))) {
    return BadAnswer(url_.name,
                     "expected text/event-stream, found " + TypeText(headers));
  }
  if (!response.ok()) return FromTransport(url_.name, response.status());
  if (!reader.is_whole()) {
    return BadAnswer(url_.name, "the stream ended before its answer did");
  }
  return std::nullopt;
}

Probe Upstream::Check(milliseconds timeout,
                      const std::function<bool()>& should_cancel) {
  net::HttpRequest request;
  request.timeout_ms = static_cast<int>(timeout.count());
  request.max_body_bytes = kMaxEventBytes;
  request.should_cancel = should_cancel;
  request.path = url_.health_path;
  const auto health = client_->Send(request);
  Probe probe;
  const auto judge = [&](const Result<net::HttpResponse>& response) {
    if (!response.ok()) {
      probe.status = response.status();
    } else if (response->status >= 500) {
      probe.status = UnavailableError(url_.name + ": HTTP " +
                                      std::to_string(response->status));
    }
  };
  // 503 while it loads its model. 501 and the 4xx: there is no such path.
  judge(health);
  if (!health.ok() || (health->status >= 500 && health->status != 501)) {
    return probe;
  }
  request.path = url_.models_path;
  const auto models = client_->Send(request);
  probe.status = Status::Ok();
  if (health->status != 200) judge(models);
  if (!models.ok() || models->status != 200) return probe;
  const auto body = ParseJson(models->body, url_.name);
  if (!body.ok() || !body->is_object()) return probe;
  const auto data = body->find("data");
  if (data == body->end() || !data->is_array()) return probe;
  for (const Json& model : *data) {
    if (!model.is_object()) continue;
    const auto id = model.find("id");
    if (id != model.end() && id->is_string()) {
      probe.models.push_back(id->get<std::string>());
    }
  }
  return probe;
}

}  // namespace nexus::remote
