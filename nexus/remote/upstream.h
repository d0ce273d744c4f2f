// Upstream: one replica, and one attempt at one chat completion there.
//
// Everything that comes back is outside input: it is bounded, parsed with
// limits, and becomes an answer or a RemoteError.
#ifndef NEXUS_REMOTE_UPSTREAM_H_
#define NEXUS_REMOTE_UPSTREAM_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/net/http_client.h"
#include "nexus/remote/backend_url.h"
#include "nexus/remote/remote_error.h"

namespace nexus::remote {

// Of a whole answer or of a stream in all, and of one event of it.
inline constexpr size_t kMaxAnswerBytes = size_t{32} << 20;
inline constexpr size_t kMaxEventBytes = size_t{1} << 20;

struct UpstreamOptions {
  std::string api_key;  // empty: none is sent
  std::chrono::milliseconds connect_timeout{5000};
};

struct Attempt {
  std::string_view body;
  bool is_stream = false;
  std::chrono::milliseconds timeout{0};  // whole attempt; over 0
  // Longest time without a byte of a stream; 0: any.
  std::chrono::milliseconds silence{0};
  std::function<bool()> should_cancel;
  // Each chunk of a stream, an object. False: nobody reads it any more.
  std::function<bool(Json&&)> on_chunk;
};

struct Probe {
  Status status;                    // not ok: why it can't be used
  std::vector<std::string> models;  // where it said so
};

// Thread-safe.
class Upstream {
 public:
  static Result<std::unique_ptr<Upstream>> Create(
      const BackendUrl& url, const UpstreamOptions& options);

  // nullopt: the answer is in `whole` (an object with choices), or its chunks
  // have all been given out, to the end.
  std::optional<RemoteError> Complete(const Attempt& attempt, Json* whole);

  // GET /health, which local servers have; where there is none, the list of
  // models. A remote that answers anything sensible at all is well: cloud APIs
  // may have neither.
  Probe Check(std::chrono::milliseconds timeout,
              const std::function<bool()>& should_cancel);

  const BackendUrl& url() const { return url_; }

 private:
  Upstream(const BackendUrl& url, std::string api_key,
           std::unique_ptr<net::HttpClient> client);
  std::optional<RemoteError> CompleteWhole(const Attempt& attempt, Json* whole);
  std::optional<RemoteError> CompleteStream(const Attempt& attempt);

  const BackendUrl url_;
  const std::string api_key_;  // to take out of messages
  const std::unique_ptr<net::HttpClient> client_;
};

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_UPSTREAM_H_
