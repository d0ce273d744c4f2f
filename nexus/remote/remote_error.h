// RemoteError: why a remote gave no answer, as the client is told, and what may
// be done about it.
#ifndef NEXUS_REMOTE_REMOTE_ERROR_H_
#define NEXUS_REMOTE_REMOTE_ERROR_H_

#include <chrono>
#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/status.h"
#include "nexus/net/http_client.h"

namespace nexus::remote {

struct RemoteError {
  int status = 502;  // of HTTP, for the client
  std::string type = "server_error";
  std::string message;
  std::string param;
  std::string code;
  // Another replica, or the same one later, may do better.
  bool is_retryable = false;
  // Counts as a failure of the replica; a refusal of the request doesn't.
  bool blames_replica = false;
  std::chrono::milliseconds retry_after{0};  // 0: it said nothing
};

// A body that isn't an answer: garbage, half a stream, the wrong type.
RemoteError BadAnswer(std::string_view replica, std::string_view what);

// A status other than 200. 4xx is the request's fault and keeps its status, but
// for 401 and 403, which are about Nexus's own key and no business of the
// client's; 5xx becomes 502, 503 or 504.
RemoteError FromHttpAnswer(std::string_view replica, int status,
                           const net::HttpHeaders& headers,
                           std::string_view body);

// {"error": ...} in place of a chunk.
RemoteError FromErrorObject(std::string_view replica, const Json& error);

// No whole HTTP answer.
RemoteError FromTransport(std::string_view replica, const Status& status);

// `text` with "[key]" for every occurrence of `secret`.
std::string Redacted(std::string_view secret, std::string_view text);

// What may be told of an error, last of all: without `secret`, then cut to what
// logs and terminals bear. Half a secret at a cut would not be found.
void Sanitize(std::string_view secret, RemoteError* error);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_REMOTE_ERROR_H_
