#include "nexus/mcp/json_rpc.h"

#include <limits>
#include <utility>

namespace nexus::mcp {
namespace {

// Enough of a text to recognise it in a log, on one line.
std::string Excerpt(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  std::string excerpt(text.substr(0, kMaxBytes));
  if (text.size() > kMaxBytes) excerpt += "...";
  return DumpJson(Json(excerpt));
}

Status Bad(std::string_view source, std::string_view reason) {
  return InvalidArgumentError(
      std::string(source) + ": not a JSON-RPC message: " + std::string(reason));
}

// Some servers write an integer id back as 1.0; the number is the same.
std::optional<RpcId> ReadId(const Json& value) {
  if (value.is_null()) return RpcId();
  if (value.is_string()) return RpcId(value.get<std::string>());
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > uint64_t{std::numeric_limits<int64_t>::max()}) {
      return std::nullopt;
    }
    return RpcId(static_cast<int64_t>(number));
  }
  if (value.is_number_integer()) return RpcId(value.get<int64_t>());
  if (value.is_number_float()) {
    constexpr double kExactLimit = 9007199254740992.0;  // 2^53
    const auto number = value.get<double>();
    if (number > -kExactLimit && number < kExactLimit &&
        static_cast<double>(static_cast<int64_t>(number)) == number) {
      return RpcId(static_cast<int64_t>(number));
    }
  }
  return std::nullopt;
}

Result<RpcError> ReadError(const Json& value, std::string_view source) {
  if (!value.is_object()) return Bad(source, "\"error\" isn't an object");
  RpcError error;
  const auto code = value.find("code");
  if (code == value.end() || !code->is_number()) {
    return Bad(source, "\"error\" has no number \"code\"");
  }
  if (code->is_number_integer()) {
    error.code = code->get<int64_t>();
  } else if (const auto id = ReadId(*code)) {
    error.code = std::get<int64_t>(*id);
  }
  if (const auto message = value.find("message");
      message != value.end() && message->is_string()) {
    error.message = message->get<std::string>();
  }
  if (const auto data = value.find("data"); data != value.end()) {
    error.data = *data;
  }
  return error;
}

Result<RpcMessage> ReadMessage(Json& value, std::string_view source) {
  if (!value.is_object()) {
    return Bad(source,
               std::string("expected an object, found ") + value.type_name());
  }
  const auto version = value.find("jsonrpc");
  if (version == value.end() || *version != "2.0") {
    return Bad(source, "\"jsonrpc\" isn't \"2.0\"");
  }
  std::optional<RpcId> id;
  if (const auto found = value.find("id"); found != value.end()) {
    id = ReadId(*found);
    if (!id) return Bad(source, "\"id\" is neither an integer nor a string");
  }
  Json params;
  if (const auto found = value.find("params"); found != value.end()) {
    if (!found->is_object() && !found->is_array() && !found->is_null()) {
      return Bad(source, "\"params\" is neither an object nor an array");
    }
    params = std::move(*found);
  }
  if (const auto found = value.find("method"); found != value.end()) {
    if (!found->is_string()) return Bad(source, "\"method\" isn't a string");
    auto method = found->get<std::string>();
    if (!id) {
      return RpcMessage(RpcNotification{std::move(method), std::move(params)});
    }
    if (std::holds_alternative<std::monostate>(*id)) {
      return Bad(source, "a request with a null \"id\"");
    }
    return RpcMessage(
        RpcRequest{*std::move(id), std::move(method), std::move(params)});
  }
  const auto result = value.find("result");
  const auto error = value.find("error");
  const bool has_result = result != value.end();
  const bool has_error = error != value.end() && !error->is_null();
  if (has_result == has_error) {
    return Bad(source, has_error
                           ? "both \"result\" and \"error\""
                           : "neither \"method\", \"result\" nor \"error\"");
  }
  // An answer to a text whose id couldn't be read may leave the id out.
  if (!id && has_result) return Bad(source, "an answer without \"id\"");
  RpcResponse response;
  response.id = id.value_or(RpcId());
  if (has_result) {
    response.result = std::move(*result);
  } else {
    NEXUS_ASSIGN_OR_RETURN(response.error, ReadError(*error, source));
  }
  return RpcMessage(std::move(response));
}

Json IdToJson(const RpcId& id) {
  if (const auto* number = std::get_if<int64_t>(&id)) return *number;
  if (const auto* text = std::get_if<std::string>(&id)) return *text;
  return nullptr;
}

}  // namespace

Result<std::vector<RpcMessage>> ParseRpc(std::string_view text,
                                         std::string_view source,
                                         const JsonLimits& limits) {
  Result<Json> parsed = ParseJson(text, source, limits);
  if (!parsed.ok()) {
    return InvalidArgumentError(parsed.status().message() + ", in " +
                                Excerpt(text));
  }
  std::vector<RpcMessage> messages;
  if (!parsed->is_array()) {
    NEXUS_ASSIGN_OR_RETURN(auto message, ReadMessage(*parsed, source));
    messages.push_back(std::move(message));
    return messages;
  }
  if (parsed->empty()) return Bad(source, "an empty batch");
  for (Json& member : *parsed) {
    NEXUS_ASSIGN_OR_RETURN(auto message, ReadMessage(member, source));
    messages.push_back(std::move(message));
  }
  return messages;
}

std::string SerializeRpc(const RpcRequest& request) {
  Json json = {{"jsonrpc", "2.0"},
               {"id", IdToJson(request.id)},
               {"method", request.method}};
  if (!request.params.is_null()) json["params"] = request.params;
  return DumpJson(json);
}

std::string SerializeRpc(const RpcNotification& notification) {
  Json json = {{"jsonrpc", "2.0"}, {"method", notification.method}};
  if (!notification.params.is_null()) json["params"] = notification.params;
  return DumpJson(json);
}

std::string SerializeRpc(const RpcResponse& response) {
  Json json = {{"jsonrpc", "2.0"}, {"id", IdToJson(response.id)}};
  if (!response.error) {
    json["result"] = response.result;
    return DumpJson(json);
  }
  Json& error = json["error"];
  error = {{"code", response.error->code},
           {"message", response.error->message}};
  if (!response.error->data.is_null()) error["data"] = response.error->data;
  return DumpJson(json);
}

std::string RpcIdText(const RpcId& id) { return DumpJson(IdToJson(id)); }

}  // namespace nexus::mcp
