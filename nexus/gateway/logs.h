// Log messages of the servers behind, on their way to clients.
#ifndef NEXUS_GATEWAY_LOGS_H_
#define NEXUS_GATEWAY_LOGS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "nexus/gateway/gateway.h"
#include "nexus/gateway/notification_sink.h"
#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

// How serious the level of that name is; nothing: it is none.
std::optional<size_t> LevelOf(const std::string& name);
std::string LevelNames();
// For clients that don't say: info.
inline constexpr size_t kDefaultLevel = 1;

// The message of `server` as clients get it, with the server's name; nothing
// when it is no log message, or under `level`.
std::optional<mcp::RpcNotification> LogForClient(
    const std::string& server, const mcp::RpcNotification& notification,
    size_t level);

// Passes on what one server logs, for as long as this lives.
class LogTap : public Gateway::Listener {
 public:
  LogTap(Gateway* gateway, std::string server, size_t level,
         NotificationSink emit);
  ~LogTap() override;
  LogTap(const LogTap&) = delete;
  LogTap& operator=(const LogTap&) = delete;

  void OnToolsChanged() override {}
  void OnPromptsChanged() override {}
  void OnResourcesChanged() override {}
  void OnNotification(const std::string& server,
                      const mcp::RpcNotification& notification) override;

 private:
  Gateway* const gateway_;
  const std::string server_;
  const size_t level_;
  const NotificationSink emit_;
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_LOGS_H_
