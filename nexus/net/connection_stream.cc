#include "nexus/net/connection_stream.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nexus::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // the program ignores SIGPIPE
#endif

bool WaitFor(int fd, short events, steady_clock::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd polled = {.fd = fd, .events = events, .revents = 0};
    const int ready = ::poll(&polled, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace

bool IsPeerGone(int fd) {
  char byte = 0;
  const ssize_t count = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count > 0) return false;
  if (count == 0) return true;
  return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
}

ConnectionStream::ConnectionStream(Options options)
    : options_(std::move(options)), start_(steady_clock::now()) {
  read_deadline_ = start_;
}

void ConnectionStream::SetReadDeadline(milliseconds limit) {
  read_deadline_ = steady_clock::now() + limit;
}

bool ConnectionStream::wait_readable() const {
  return has_buffered() || WaitFor(options_.fd, POLLIN, read_deadline_);
}

bool ConnectionStream::wait_writable() const {
  return WaitFor(options_.fd, POLLOUT,
                 steady_clock::now() + options_.write_timeout);
}

ssize_t ConnectionStream::read(char* to, size_t size) {
  if (!has_buffered()) {
    if (!WaitFor(options_.fd, POLLIN, read_deadline_)) {
      error_ = httplib::Error::Timeout;
      return -1;
    }
    ssize_t count = 0;
    do {
      count = ::recv(options_.fd, buffer_.data(), buffer_.size(), 0);
    } while (count < 0 && errno == EINTR);
    if (count <= 0) {
      error_ =
          count == 0 ? httplib::Error::ConnectionClosed : httplib::Error::Read;
      return count;
    }
    begin_ = 0;
    end_ = static_cast<size_t>(count);
  }
  const size_t taken = std::min(size, end_ - begin_);
  std::memcpy(to, buffer_.data() + begin_, taken);
  begin_ += taken;
  return static_cast<ssize_t>(taken);
}

ssize_t ConnectionStream::write(const char* from, size_t size) {
  if (!wait_writable()) {
    error_ = httplib::Error::Timeout;
    return -1;
  }
  ssize_t count = 0;
  do {
    // Not blocking: a client that reads slowly must come back here, to the
    // time limit.
    count = ::send(options_.fd, from, size, kSendFlags | MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (count < 0) error_ = httplib::Error::Write;
  return count;
}

void ConnectionStream::get_remote_ip_and_port(std::string& ip,
                                              int& port) const {
  ip = options_.peer;
  port = options_.peer_port;
}

void ConnectionStream::get_local_ip_and_port(std::string& ip, int& port) const {
  ip.clear();
  port = 0;
}

time_t ConnectionStream::duration() const {
  return static_cast<time_t>(
      std::chrono::duration_cast<milliseconds>(steady_clock::now() - start_)
          .count());
}

const char* ConnectionStream::buffered_data(size_t& size) const {
  size = end_ - begin_;
  return size > 0 ? buffer_.data() + begin_ : nullptr;
}

}  // namespace nexus::net
