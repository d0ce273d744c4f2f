// What the endpoints answer with: JSON, and errors in OpenAI's shape.
#ifndef NEXUS_SERVE_HTTP_REPLY_H_
#define NEXUS_SERVE_HTTP_REPLY_H_

#include <optional>
#include <string>

#include "nexus/base/json.h"
#include "nexus/net/http_server.h"
#include "nexus/serve/api_error.h"

namespace nexus::serve {

net::ServerResponse JsonResponse(const Json& body, int status = 200);
net::ServerResponse ErrorResponse(const ApiError& error);

// The body as a JSON object, or why it isn't one.
std::optional<ApiError> ParseBody(const net::ServerRequest& request,
                                  Json* body);

ApiError ModelNotFound(const std::string& name, const std::string& served);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_HTTP_REPLY_H_
