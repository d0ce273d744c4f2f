#include "nexus/gateway/subscriptions.h"

#include <algorithm>
#include <utility>

#include "nexus/gateway/incoming.h"
#include "nexus/gateway/stateless.h"

namespace nexus::gateway {
namespace {

using mcp::RpcRequest;
using mcp::RpcResponse;

constexpr std::pair<const char*, ListKind> kFilters[] = {
    {"toolsListChanged", ListKind::kTools},
    {"promptsListChanged", ListKind::kPrompts},
    {"resourcesListChanged", ListKind::kResources}};

Json IdJson(const mcp::RpcId& id) {
  if (const auto* number = std::get_if<int64_t>(&id)) return *number;
  if (const auto* text = std::get_if<std::string>(&id)) return *text;
  return nullptr;
}

Json MetaFor(const mcp::RpcId& id) { return {{kSubscriptionKey, IdJson(id)}}; }

}  // namespace

const char* ListChangedMethod(ListKind kind) {
  switch (kind) {
    case ListKind::kTools:
      return "notifications/tools/list_changed";
    case ListKind::kPrompts:
      return "notifications/prompts/list_changed";
    case ListKind::kResources:
      return "notifications/resources/list_changed";
  }
  return "";
}

Subscriptions::Subscriptions(NotificationSink notify)
    : notify_(std::move(notify)) {}

std::optional<RpcResponse> Subscriptions::Open(
    const RpcRequest& request, const std::vector<ListKind>& lists) {
  const auto refuse = [&](const std::string& what) {
    return ErrorResponse(request.id, mcp::rpc_error::kInvalidParams,
                         std::string(kListen) + ": " + what);
  };
  const auto wanted = request.params.find("notifications");
  if (wanted == request.params.end() || !wanted->is_object()) {
    return refuse("\"notifications\" must be an object");
  }
  std::vector<ListKind> granted;
  Json shown = Json::object();
  for (const auto& [key, kind] : kFilters) {
    const auto flag = wanted->find(key);
    if (flag == wanted->end()) continue;
    if (!flag->is_boolean()) {
      return refuse(std::string("\"") + key + "\" must be true or false");
    }
    if (!flag->get<bool>() ||
        std::find(lists.begin(), lists.end(), kind) == lists.end()) {
      continue;
    }
    granted.push_back(kind);
    shown[key] = true;
  }
  MutexLock lock(mutex_);
  if (notify_) {
    notify_(
        {.method = "notifications/subscriptions/acknowledged",
         .params = {{"_meta", MetaFor(request.id)}, {"notifications", shown}}});
  }
  open_[request.id] = std::move(granted);
  return std::nullopt;
}

bool Subscriptions::Close(const mcp::RpcId& id) {
  MutexLock lock(mutex_);
  return open_.erase(id) > 0;
}

std::vector<RpcResponse> Subscriptions::End() {
  std::vector<RpcResponse> answers;
  MutexLock lock(mutex_);
  for (const auto& [id, kinds] : open_) {
    RpcResponse& answer = answers.emplace_back();
    answer.id = id;
    answer.result = {{"resultType", "complete"}, {"_meta", MetaFor(id)}};
  }
  open_.clear();
  return answers;
}

void Subscriptions::Tell(ListKind kind) {
  MutexLock lock(mutex_);
  if (!notify_) return;
  for (const auto& [id, kinds] : open_) {
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) continue;
    notify_({.method = ListChangedMethod(kind),
             .params = {{"_meta", MetaFor(id)}}});
  }
}

bool Subscriptions::Has(const mcp::RpcId& id) const {
  MutexLock lock(mutex_);
  return open_.contains(id);
}

size_t Subscriptions::size() const {
  MutexLock lock(mutex_);
  return open_.size();
}

}  // namespace nexus::gateway
