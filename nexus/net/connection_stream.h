// ConnectionStream: a socket as cpp-httplib wants to see one, with a deadline
// for all of a request instead of one for every read: a byte now and then must
// not keep a thread.
//
// Internal to nexus/net.
#ifndef NEXUS_NET_CONNECTION_STREAM_H_
#define NEXUS_NET_CONNECTION_STREAM_H_

#include <array>
#include <chrono>
#include <string>

#include "httplib.h"

namespace nexus::net {

// True when the peer has closed its end, or the connection broke.
bool IsPeerGone(int fd);

// Used by one thread. Doesn't own the socket.
class ConnectionStream : public httplib::Stream {
 public:
  struct Options {
    int fd = -1;
    std::string peer;
    int peer_port = 0;
    std::chrono::milliseconds write_timeout{30000};
  };
  explicit ConnectionStream(Options options);

  // Reads fail from now + `limit` on.
  void SetReadDeadline(std::chrono::milliseconds limit);
  // Bytes that were read and not yet asked for: a next request.
  bool has_buffered() const { return begin_ < end_; }

  bool is_readable() const override { return has_buffered(); }
  bool wait_readable() const override;
  bool wait_writable() const override;
  bool is_peer_alive() const override { return !IsPeerGone(options_.fd); }
  ssize_t read(char* to, size_t size) override;
  ssize_t write(const char* from, size_t size) override;
  using httplib::Stream::write;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return options_.fd; }
  time_t duration() const override;
  const char* buffered_data(size_t& size) const override;
  void consume_buffered(size_t size) override { begin_ += size; }

 private:
  Options options_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point read_deadline_;
  std::array<char, 8192> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

}  // namespace nexus::net

#endif  // NEXUS_NET_CONNECTION_STREAM_H_
