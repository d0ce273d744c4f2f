// BackendPool: the replicas, and a thread for each that asks now and then
// whether it is well.
#ifndef NEXUS_REMOTE_BACKEND_POOL_H_
#define NEXUS_REMOTE_BACKEND_POOL_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/remote/replica_set.h"
#include "nexus/remote/upstream.h"

namespace nexus::remote {

struct BackendPoolOptions {
  UpstreamOptions upstream;
  ReplicaSetOptions replicas;
  std::chrono::milliseconds probe_interval{10000};  // 0: no probes
  std::chrono::milliseconds probe_timeout{5000};
};

// Thread-safe.
class BackendPool {
 public:
  static Result<std::unique_ptr<BackendPool>> Create(
      const std::vector<BackendUrl>& urls, const BackendPoolOptions& options);
  ~BackendPool();
  BackendPool(const BackendPool&) = delete;
  BackendPool& operator=(const BackendPool&) = delete;

  ReplicaSet& replicas() { return set_; }
  Upstream& upstream(size_t replica) { return *upstreams_[replica]; }

  // What the replicas last said they serve, each name once.
  std::vector<std::string> models() const EXCLUDES(mutex_);
  // Waits until each replica has been probed once, or the time is up.
  void AwaitFirstProbes(std::chrono::milliseconds longest) EXCLUDES(mutex_);

 private:
  BackendPool(std::vector<std::unique_ptr<Upstream>> upstreams,
              const BackendPoolOptions& options);
  void ProbeUntilStopped(size_t replica) EXCLUDES(mutex_);

  const BackendPoolOptions options_;
  const std::vector<std::unique_ptr<Upstream>> upstreams_;
  ReplicaSet set_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  size_t probed_ GUARDED_BY(mutex_) = 0;
  std::vector<std::vector<std::string>> models_ GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_BACKEND_POOL_H_
