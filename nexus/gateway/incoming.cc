#include "nexus/gateway/incoming.h"

#include <utility>

namespace nexus::gateway {
namespace {

// The id of a request that is wrong otherwise, so that its sender can tell
// which it was.
mcp::RpcId IdOf(const Json& message) {
  if (!message.is_object()) return {};
  const auto id = message.find("id");
  if (id == message.end()) return {};
  if (id->is_string()) return id->get<std::string>();
  if (id->is_number_integer()) return id->get<int64_t>();
  return {};
}

}  // namespace

mcp::RpcResponse ErrorResponse(mcp::RpcId id, int64_t code,
                               std::string message) {
  mcp::RpcResponse response;
  response.id = std::move(id);
  mcp::RpcError error;
  error.code = code;
  error.message = std::move(message);
  response.error = std::move(error);
  return response;
}

Incoming ReadIncoming(std::string_view text) {
  const JsonLimits limits{.max_bytes = kMaxClientMessageBytes};
  Incoming incoming;
  const size_t start = text.find_first_not_of(" \t\r\n");
  incoming.is_batch = start != std::string_view::npos && text[start] == '[';
  auto messages = mcp::ParseRpc(text, "the client", limits);
  if (messages.ok()) {
    incoming.messages = std::move(messages).value();
    return incoming;
  }
  const auto json = ParseJson(text, "the client", limits);
  incoming.refusal =
      json.ok() ? ErrorResponse(IdOf(*json), mcp::rpc_error::kInvalidRequest,
                                messages.status().message())
                : ErrorResponse({}, mcp::rpc_error::kParseError,
                                json.status().message());
  return incoming;
}

}  // namespace nexus::gateway
