#include "nexus/gateway/stateless.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "nexus/gateway/incoming.h"
#include "nexus/gateway/logs.h"
#include "nexus/mcp/client.h"
#include "nexus/mcp/json_fields.h"

namespace nexus::gateway {
namespace {

namespace rpc_error = mcp::rpc_error;
using mcp::RpcRequest;
using mcp::RpcResponse;
using mcp::StringOf;

// As older revisions have it; this one has kInvalidParams instead.
constexpr int64_t kResourceNotFound = -32002;
// Codes that only this revision's own text may give a meaning.
constexpr int64_t kFirstReserved = -32099;
constexpr int64_t kLastReserved = -32020;

constexpr const char* kCacheable[] = {kDiscover,
                                      "tools/list",
                                      "prompts/list",
                                      "resources/list",
                                      "resources/templates/list",
                                      "resources/read"};

RpcResponse WrongMeta(const RpcRequest& request, const std::string& what) {
  return ErrorResponse(request.id, rpc_error::kInvalidParams,
                       request.method + ": \"_meta\" " + what);
}

// A code of a server behind must not be taken for one of this revision: that
// the server doesn't speak a revision, say, is no news about the gateway. What
// a server wants of its client the client may know.
int64_t CodeForClient(int64_t code) {
  if (code == kResourceNotFound) return rpc_error::kInvalidParams;
  if (code == kMissingCapability) return code;
  if (code >= kFirstReserved && code <= kLastReserved) {
    return rpc_error::kInternalError;
  }
  return code;
}

bool IsTtl(const Json& result) {
  const auto ttl = result.find("ttlMs");
  return ttl != result.end() && ttl->is_number_integer() && *ttl >= 0;
}

}  // namespace

const Json* MetaOf(const Json& params) {
  if (!params.is_object()) return nullptr;
  const auto meta = params.find("_meta");
  return meta != params.end() && meta->is_object() ? &*meta : nullptr;
}

bool IsStateless(const RpcRequest& request) {
  if (request.method == kDiscover || request.method == kListen) return true;
  const Json* meta = MetaOf(request.params);
  return meta != nullptr && meta->contains(kVersionKey);
}

std::optional<RpcResponse> CheckRequestMeta(const RpcRequest& request) {
  const Json* meta = MetaOf(request.params);
  if (meta == nullptr) {
    return WrongMeta(request, "is missing or no object; it must have " +
                                  std::string(kVersionKey) + " and " +
                                  kCapabilitiesKey);
  }
  const auto version = meta->find(kVersionKey);
  if (version == meta->end() || !version->is_string()) {
    return WrongMeta(request,
                     "must have the string " + std::string(kVersionKey));
  }
  const auto capabilities = meta->find(kCapabilitiesKey);
  if (capabilities == meta->end() || !capabilities->is_object()) {
    return WrongMeta(request,
                     "must have the object " + std::string(kCapabilitiesKey));
  }
  const auto info = meta->find(kClientInfoKey);
  if (info != meta->end() && !info->is_object()) {
    return WrongMeta(request,
                     std::string(kClientInfoKey) + " must be an object");
  }
  const auto level = meta->find(kLogLevelKey);
  if (level != meta->end() && !LevelOf(StringOf(*meta, kLogLevelKey))) {
    return WrongMeta(request, std::string(kLogLevelKey) +
                                  " must be one of: " + LevelNames());
  }
  return std::nullopt;
}

std::optional<RpcResponse> CheckVersion(const RpcRequest& request) {
  const Json* meta = MetaOf(request.params);
  const std::string version =
      meta == nullptr ? std::string() : StringOf(*meta, kVersionKey);
  if (version == mcp::kStatelessRevision) return std::nullopt;
  return UnsupportedVersion(request.id, version);
}

RpcResponse UnsupportedVersion(mcp::RpcId id, const std::string& requested) {
  RpcResponse response = ErrorResponse(
      std::move(id), kUnsupportedVersion,
      "revision '" + requested + "' isn't served without a handshake");
  response.error->data = {{"supported", Json::array({mcp::kStatelessRevision})},
                          {"requested", requested}};
  return response;
}

Json ForwardedMeta(const Json& params) {
  const Json* meta = MetaOf(params);
  if (meta == nullptr) return nullptr;
  Json forwarded = *meta;
  for (const char* own :
       {"progressToken", kVersionKey, kClientInfoKey, kCapabilitiesKey}) {
    forwarded.erase(own);
  }
  return forwarded.empty() ? Json() : forwarded;
}

void CompleteResponse(const std::string& method, const Json& server_info,
                      RpcResponse* response) {
  if (response->error) {
    response->error->code = CodeForClient(response->error->code);
    return;
  }
  Json& result = response->result;
  std::string problem;
  if (!result.is_object()) {
    problem = std::string("no object but ") + result.type_name();
  } else if (const std::string kind = StringOf(result, "resultType");
             !kind.empty() && kind != "complete") {
    problem = "of the kind '" + kind + "', which the gateway doesn't pass on";
  }
  if (!problem.empty()) {
    *response = ErrorResponse(response->id, rpc_error::kInternalError,
                              method + ": the server's result is " + problem);
    return;
  }
  result["resultType"] = "complete";
  Json& meta = result["_meta"];
  if (!meta.is_object()) meta = Json::object();
  meta[kServerInfoKey] = server_info;
  if (std::find(std::begin(kCacheable), std::end(kCacheable), method) ==
      std::end(kCacheable)) {
    return;
  }
  // Anything may change at any time, and subscriptions/listen says when. All
  // who have the key see the same, but only they may.
  if (!IsTtl(result)) result["ttlMs"] = 0;
  if (StringOf(result, "cacheScope") != "public") {
    result["cacheScope"] = "private";
  }
}

int HttpStatusOf(const RpcResponse& response) {
  if (!response.error) return 200;
  switch (response.error->code) {
    case rpc_error::kMethodNotFound:
      return 404;
    case rpc_error::kParseError:
    case rpc_error::kInvalidRequest:
    case kHeaderMismatch:
    case kMissingCapability:
    case kUnsupportedVersion:
      return 400;
    default:
      return 200;
  }
}

}  // namespace nexus::gateway
