// ConnectionParker: holds the connections that have no whole request yet, all
// of them on one thread. A connection goes out as soon as the headers of its
// next request are there in full (they are looked at, not taken), or has been
// closed for its silence or slowness.
//
// Internal to nexus/net.
#ifndef NEXUS_NET_CONNECTION_PARKER_H_
#define NEXUS_NET_CONNECTION_PARKER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nexus/base/mutex.h"
#include "nexus/base/unique_fd.h"

namespace nexus::net {

struct Connection {
  UniqueFd fd;
  std::string peer;
  int peer_port = 0;
  int served = 0;  // requests
};

struct ParkerOptions {
  size_t max_header_bytes = size_t{32} << 10;
  std::chrono::milliseconds header_timeout{10000};
  std::chrono::milliseconds idle_timeout{75000};
  // With the headers of a request in its receive buffer; `too_large`: with more
  // bytes than allowed, and no end of the headers in them. Runs on the parker's
  // thread and mustn't block.
  std::function<void(std::unique_ptr<Connection>, bool too_large)> on_ready;
};

// Thread-safe.
class ConnectionParker {
 public:
  explicit ConnectionParker(ParkerOptions options);
  // Closes what it holds.
  ~ConnectionParker();
  ConnectionParker(const ConnectionParker&) = delete;
  ConnectionParker& operator=(const ConnectionParker&) = delete;

  void Add(std::unique_ptr<Connection> connection) EXCLUDES(mutex_);
  // Closes what it holds and all that is added from now on.
  void Close() EXCLUDES(mutex_);
  size_t size() const EXCLUDES(mutex_);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Parked {
    std::unique_ptr<Connection> connection;
    TimePoint deadline;
    bool has_begun = false;  // some bytes of the request are there
  };
  enum class Look { kWait, kReady, kTooLarge, kClosed };

  void Run();
  void Wake();
  Look LookAt(Parked& parked, TimePoint now);
  void TakeIncoming(std::vector<Parked>* parked) EXCLUDES(mutex_);

  const ParkerOptions options_;
  UniqueFd wake_read_;
  UniqueFd wake_write_;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<Connection>> incoming_ GUARDED_BY(mutex_);
  size_t parked_count_ GUARDED_BY(mutex_) = 0;
  bool closing_ GUARDED_BY(mutex_) = false;
  bool ending_ GUARDED_BY(mutex_) = false;
  std::string peeked_;  // of the parker's thread
  std::thread thread_;
};

}  // namespace nexus::net

#endif  // NEXUS_NET_CONNECTION_PARKER_H_
