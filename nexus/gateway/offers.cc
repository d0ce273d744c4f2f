#include "nexus/gateway/offers.h"

#include <set>
#include <utility>
#include <vector>

#include "nexus/gateway/exposed_name.h"
#include "nexus/gateway/incoming.h"
#include "nexus/gateway/stateless.h"
#include "nexus/mcp/json_fields.h"

namespace nexus::gateway {
namespace {

using mcp::RpcResponse;
using mcp::StringOf;

// As the protocol has it for resources/read.
constexpr int64_t kResourceNotFound = -32002;

RpcResponse WrongParams(std::string message) {
  return ErrorResponse({}, mcp::rpc_error::kInvalidParams, std::move(message));
}

struct Prompt {
  Upstream* upstream = nullptr;
  std::string name;  // on its server
  Json entry;        // with its exposed name
};

std::vector<Prompt> Prompts(const Gateway& gateway) {
  std::vector<Prompt> prompts;
  std::set<std::string> names;
  for (const auto& upstream : gateway.upstreams()) {
    const UpstreamView view = upstream->view();
    for (const Json& entry : view.lists->prompts) {
      Prompt prompt{.upstream = upstream.get(),
                    .name = StringOf(entry, "name"),
                    .entry = entry};
      if (prompt.name.empty()) continue;
      if (!gateway.options()
               .tools.rules.Refusal(upstream->name(), prompt.name)
               .empty()) {
        continue;
      }
      std::string shown = ExposedName(upstream->name(), prompt.name);
      for (int attempt = 1; !names.insert(shown).second; ++attempt) {
        shown = ExposedName(upstream->name(), prompt.name, attempt);
      }
      prompt.entry["name"] = std::move(shown);
      prompts.push_back(std::move(prompt));
    }
  }
  return prompts;
}

// Resources or templates; `key` has what they are known by.
Json Resources(const Gateway& gateway, std::vector<Json> UpstreamLists::*list,
               const char* key) {
  Json listed = Json::array();
  std::set<std::string> uris;
  for (const auto& upstream : gateway.upstreams()) {
    const UpstreamView view = upstream->view();
    for (const Json& entry : (*view.lists).*list) {
      const std::string uri = StringOf(entry, key);
      if (uri.empty() || !gateway.options()
                              .tools.rules.Refusal(upstream->name(), uri)
                              .empty()) {
        continue;
      }
      // Two servers with one URI: a read goes to the first.
      if (!uris.insert(uri).second) continue;
      Json shown = entry;
      if (const std::string name = StringOf(entry, "name"); !name.empty()) {
        shown["name"] = upstream->name() + "__" + name;
      }
      listed.push_back(std::move(shown));
    }
  }
  return listed;
}

// Whether `uri` begins and ends as the template does; what stands in braces may
// be anything.
bool FitsTemplate(const std::string& uri, const std::string& uri_template) {
  const size_t open = uri_template.find('{');
  if (open == std::string::npos) return uri == uri_template;
  const std::string head = uri_template.substr(0, open);
  const std::string tail = uri_template.substr(uri_template.rfind('}') + 1);
  return !head.empty() && uri.size() >= head.size() + tail.size() &&
         uri.starts_with(head) && uri.ends_with(tail);
}

// Those that may have `uri`, the most likely first.
std::vector<Upstream*> Owners(const Gateway& gateway, const std::string& uri) {
  std::vector<Upstream*> listing;
  std::vector<Upstream*> fitting;
  std::vector<Upstream*> others;
  for (const auto& upstream : gateway.upstreams()) {
    if (!gateway.options().tools.rules.Refusal(upstream->name(), uri).empty()) {
      continue;
    }
    const UpstreamView view = upstream->view();
    if (!view.info.Has("resources")) continue;
    const auto has = [&](const std::vector<Json>& list, const auto& fits) {
      for (const Json& entry : list) {
        if (fits(entry)) return true;
      }
      return false;
    };
    if (has(view.lists->resources,
            [&](const Json& entry) { return StringOf(entry, "uri") == uri; })) {
      listing.push_back(upstream.get());
    } else if (has(view.lists->templates, [&](const Json& entry) {
                 return FitsTemplate(uri, StringOf(entry, "uriTemplate"));
               })) {
      fitting.push_back(upstream.get());
    } else {
      others.push_back(upstream.get());
    }
  }
  if (!listing.empty()) return listing;
  if (!fitting.empty()) return fitting;
  return others;
}

// The first that lists the template and may show it.
Upstream* TemplateOwner(const Gateway& gateway,
                        const std::string& uri_template) {
  for (const auto& upstream : gateway.upstreams()) {
    if (!gateway.options()
             .tools.rules.Refusal(upstream->name(), uri_template)
             .empty()) {
      continue;
    }
    const UpstreamView view = upstream->view();
    for (const Json& entry : view.lists->templates) {
      if (StringOf(entry, "uriTemplate") == uri_template) return upstream.get();
    }
  }
  return nullptr;
}

// A server that has gone is an error of the request here: these have no result
// that could say so.
RpcResponse Forward(Upstream* upstream, const std::string& method, Json params,
                    const mcp::CallOptions& options) {
  Json meta = ForwardedMeta(params);
  params.erase("_meta");
  if (!meta.is_null()) params["_meta"] = std::move(meta);
  auto answer = upstream->Request(method, std::move(params), options);
  if (answer.ok()) return std::move(answer).value();
  return ErrorResponse({}, mcp::rpc_error::kInternalError,
                       answer.status().message());
}

RpcResponse ReadResource(Gateway* gateway, const Json& params,
                         const mcp::CallOptions& options) {
  const std::string uri = StringOf(params, "uri");
  if (uri.empty()) return WrongParams("resources/read: \"uri\" is missing");
  RpcResponse last = ErrorResponse({}, kResourceNotFound,
                                   "no server has the resource '" + uri + "'");
  last.error->data = {{"uri", uri}};
  for (Upstream* upstream : Owners(*gateway, uri)) {
    last = Forward(upstream, "resources/read", params, options);
    if (!last.error) return last;
  }
  return last;
}

RpcResponse GetPrompt(Gateway* gateway, Json params,
                      const mcp::CallOptions& options) {
  const std::string name = StringOf(params, "name");
  for (const Prompt& prompt : Prompts(*gateway)) {
    if (StringOf(prompt.entry, "name") != name) continue;
    params["name"] = prompt.name;
    return Forward(prompt.upstream, "prompts/get", std::move(params), options);
  }
  return WrongParams("prompts/get: unknown prompt '" + name +
                     "'; prompts/list has their names");
}

RpcResponse Complete(Gateway* gateway, Json params,
                     const mcp::CallOptions& options) {
  const std::string method = "completion/complete";
  if (!params.contains("ref") || !params["ref"].is_object()) {
    return WrongParams(method + ": \"ref\" is missing");
  }
  // Only what was looked at goes on: a server might go by the other name.
  Json& ref = params["ref"];
  const std::string type = StringOf(ref, "type");
  if (type == "ref/resource") {
    const std::string uri = StringOf(ref, "uri");
    ref = {{"type", type}, {"uri", uri}};
    Upstream* owner = uri.empty() ? nullptr : TemplateOwner(*gateway, uri);
    if (owner != nullptr) {
      return Forward(owner, method, std::move(params), options);
    }
    return WrongParams(method + ": unknown resource template '" + uri + "'");
  }
  if (type != "ref/prompt") {
    return WrongParams(method +
                       ": \"ref\" must be of type ref/prompt or ref/resource");
  }
  const std::string name = StringOf(ref, "name");
  for (const Prompt& prompt : Prompts(*gateway)) {
    if (StringOf(prompt.entry, "name") != name) continue;
    ref = {{"type", type}, {"name", prompt.name}};
    return Forward(prompt.upstream, method, std::move(params), options);
  }
  return WrongParams(method + ": unknown prompt '" + name + "'");
}

RpcResponse ListResponse(const char* key, Json entries) {
  RpcResponse response;
  response.result = {{key, std::move(entries)}};
  return response;
}

}  // namespace

std::optional<RpcResponse> AnswerOffer(Gateway* gateway,
                                       const std::string& method,
                                       const Json& given,
                                       const mcp::CallOptions& options) {
  if (method != "prompts/list" && method != "prompts/get" &&
      method != "resources/list" && method != "resources/templates/list" &&
      method != "resources/read" && method != "completion/complete") {
    return std::nullopt;
  }
  gateway->AwaitTools(options.cancel);
  Json params = given;
  if (method == "prompts/list") {
    Json listed = Json::array();
    for (Prompt& prompt : Prompts(*gateway)) {
      listed.push_back(std::move(prompt.entry));
    }
    return ListResponse("prompts", std::move(listed));
  }
  if (method == "resources/list") {
    return ListResponse("resources",
                        Resources(*gateway, &UpstreamLists::resources, "uri"));
  }
  if (method == "resources/templates/list") {
    return ListResponse(
        "resourceTemplates",
        Resources(*gateway, &UpstreamLists::templates, "uriTemplate"));
  }
  if (method == "prompts/get") {
    return GetPrompt(gateway, std::move(params), options);
  }
  if (method == "completion/complete") {
    return Complete(gateway, std::move(params), options);
  }
  return ReadResource(gateway, params, options);
}

}  // namespace nexus::gateway
