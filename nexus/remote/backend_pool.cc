#include "nexus/remote/backend_pool.h"

#include <algorithm>
#include <utility>

namespace nexus::remote {
namespace {

std::vector<std::string> NamesOf(
    const std::vector<std::unique_ptr<Upstream>>& upstreams) {
  std::vector<std::string> names;
  for (const auto& upstream : upstreams) names.push_back(upstream->url().name);
  return names;
}

}  // namespace

Result<std::unique_ptr<BackendPool>> BackendPool::Create(
    const std::vector<BackendUrl>& urls, const BackendPoolOptions& options) {
  std::vector<std::unique_ptr<Upstream>> upstreams;
  for (const BackendUrl& url : urls) {
    NEXUS_ASSIGN_OR_RETURN(auto upstream,
                           Upstream::Create(url, options.upstream));
    upstreams.push_back(std::move(upstream));
  }
  return std::unique_ptr<BackendPool>(
      new BackendPool(std::move(upstreams), options));
}

BackendPool::BackendPool(std::vector<std::unique_ptr<Upstream>> upstreams,
                         const BackendPoolOptions& options)
    : options_(options),
      upstreams_(std::move(upstreams)),
      set_(NamesOf(upstreams_), options.replicas) {
  {
    MutexLock lock(mutex_);
    models_.resize(upstreams_.size());
  }
  if (options_.probe_interval.count() == 0) return;
  for (size_t i = 0; i < upstreams_.size(); ++i) {
    threads_.emplace_back([this, i] { ProbeUntilStopped(i); });
  }
}

BackendPool::~BackendPool() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

void BackendPool::ProbeUntilStopped(size_t replica) {
  const auto is_stopping = [this] {
    MutexLock lock(mutex_);
    return stopping_;
  };
  bool is_first = true;
  while (true) {
    Probe probe =
        upstreams_[replica]->Check(options_.probe_timeout, is_stopping);
    MutexLock lock(mutex_);
    if (stopping_) return;
    set_.ReportProbe(replica, probe.status.ok());
    if (probe.status.ok()) models_[replica] = std::move(probe.models);
    if (std::exchange(is_first, false)) {
      ++probed_;
      changed_.NotifyAll();
    }
    const auto next =
        std::chrono::steady_clock::now() + options_.probe_interval;
    while (!stopping_ && std::chrono::steady_clock::now() < next) {
      changed_.WaitUntil(lock, next);
    }
    if (stopping_) return;
  }
}

std::vector<std::string> BackendPool::models() const {
  MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& of_replica : models_) {
    for (const std::string& name : of_replica) {
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

void BackendPool::AwaitFirstProbes(std::chrono::milliseconds longest) {
  const auto until = std::chrono::steady_clock::now() + longest;
  MutexLock lock(mutex_);
  while (probed_ < threads_.size()) {
    if (!changed_.WaitUntil(lock, until)) return;
  }
}

}  // namespace nexus::remote
