#include "nexus/gateway/logs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "nexus/mcp/json_fields.h"

namespace nexus::gateway {
namespace {

using mcp::RpcNotification;
using mcp::StringOf;

// Least serious first, as the protocol orders them.
constexpr const char* kLevels[] = {"debug", "info",     "notice", "warning",
                                   "error", "critical", "alert",  "emergency"};

}  // namespace

std::optional<size_t> LevelOf(const std::string& name) {
  const auto* found = std::find(std::begin(kLevels), std::end(kLevels), name);
  if (found == std::end(kLevels)) return std::nullopt;
  return static_cast<size_t>(found - std::begin(kLevels));
}

std::string LevelNames() {
  std::string names;
  for (const char* level : kLevels) {
    names += (names.empty() ? "" : ", ") + std::string(level);
  }
  return names;
}

std::optional<RpcNotification> LogForClient(const std::string& server,
                                            const RpcNotification& notification,
                                            size_t level) {
  if (notification.method != "notifications/message" ||
      !notification.params.is_object()) {
    return std::nullopt;
  }
  const auto own = LevelOf(StringOf(notification.params, "level"));
  if (own && *own < level) return std::nullopt;
  RpcNotification forwarded = notification;
  const std::string logger = StringOf(notification.params, "logger");
  forwarded.params["logger"] = logger.empty() ? server : server + "/" + logger;
  return forwarded;
}

LogTap::LogTap(Gateway* gateway, std::string server, size_t level,
               NotificationSink emit)
    : gateway_(gateway),
      server_(std::move(server)),
      level_(level),
      emit_(std::move(emit)) {
  gateway_->Add(this);
}

LogTap::~LogTap() { gateway_->Remove(this); }

void LogTap::OnNotification(const std::string& server,
                            const RpcNotification& notification) {
  if (server != server_) return;
  if (const auto log = LogForClient(server, notification, level_)) emit_(*log);
}

}  // namespace nexus::gateway
