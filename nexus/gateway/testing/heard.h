// Heard: notifications, from whatever thread.
#ifndef NEXUS_GATEWAY_TESTING_HEARD_H_
#define NEXUS_GATEWAY_TESTING_HEARD_H_

#include <string>
#include <vector>

#include "nexus/base/mutex.h"
#include "nexus/gateway/notification_sink.h"

namespace nexus::gateway {

class Heard {
 public:
  NotificationSink Sink() {
    return [this](const mcp::RpcNotification& notification) {
      MutexLock lock(mutex_);
      all_.push_back(notification);
    };
  }
  std::vector<mcp::RpcNotification> All() const {
    MutexLock lock(mutex_);
    return all_;
  }
  std::vector<mcp::RpcNotification> Of(const std::string& method) const {
    std::vector<mcp::RpcNotification> found;
    for (const mcp::RpcNotification& one : All()) {
      if (one.method == method) found.push_back(one);
    }
    return found;
  }

 private:
  mutable Mutex mutex_;
  std::vector<mcp::RpcNotification> all_ GUARDED_BY(mutex_);
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_TESTING_HEARD_H_
