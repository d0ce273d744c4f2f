#include "nexus/serve/http_reply.h"

#include <utility>

namespace nexus::serve {

net::ServerResponse JsonResponse(const Json& body, int status) {
  net::ServerResponse response;
  response.status = status;
  response.body = DumpJson(body);
  return response;
}

net::ServerResponse ErrorResponse(const ApiError& error) {
  net::ServerResponse response = JsonResponse(ToJson(error), error.status);
  if (error.retry_after_s > 0) {
    response.headers["Retry-After"] = std::to_string(error.retry_after_s);
  }
  return response;
}

// The body as JSON, or the answer that says why not.
std::optional<ApiError> ParseBody(const net::ServerRequest& request,
                                  Json* body) {
  auto parsed = ParseJson(request.body, "request body");
  if (!parsed.ok()) return FromStatus(parsed.status());
  *body = *std::move(parsed);
  if (body->is_object()) return std::nullopt;
  ApiError error;
  error.message = "the body must be a JSON object";
  return error;
}

ApiError ModelNotFound(const std::string& name, const std::string& served) {
  ApiError error;
  error.status = 404;
  error.message =
      "the model '" + name + "' isn't served here; there is '" + served + "'";
  error.param = "model";
  error.code = "model_not_found";
  return error;
}

}  // namespace nexus::serve
