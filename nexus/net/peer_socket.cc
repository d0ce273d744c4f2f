#include "nexus/net/peer_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "nexus/net/connection_stream.h"

namespace nexus::net {

void PeerOf(int fd, std::string* ip, int* port) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT
  if (::getpeername(fd, generic, &length) != 0) return;
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address, sizeof v4);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    *port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof v6);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    *port = ntohs(v6.sin6_port);
  }
  *ip = text;
}

size_t ConnectionLimit(size_t wanted) {
  constexpr rlim_t kForOthers = 64;  // files, pipes, the store
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return wanted;
  }
  const rlim_t left =
      limit.rlim_cur > kForOthers + 1 ? limit.rlim_cur - kForOthers : 1;
  return std::min(wanted, static_cast<size_t>(left));
}

void CloseGently(UniqueFd fd) {
  ::shutdown(fd.get(), SHUT_WR);
  // Clients that send all of a body before they read learn so that it was too
  // long.
  constexpr std::chrono::milliseconds kLongest{1000};
  constexpr size_t kMost = size_t{64} << 20;
  ConnectionStream stream({.fd = fd.get(), .peer = {}});
  stream.SetReadDeadline(kLongest);
  char dropped[size_t{16} << 10];
  size_t total = 0;
  while (total < kMost) {
    const ssize_t count = stream.read(dropped, sizeof dropped);
    if (count <= 0) return;
    total += static_cast<size_t>(count);
  }
}

void DropReceived(int fd) {
  // A request's headers and the beginning of its body.
  constexpr int kMostReads = 16;
  char dropped[size_t{16} << 10];
  for (int i = 0; i < kMostReads; ++i) {
    if (::recv(fd, dropped, sizeof dropped, MSG_DONTWAIT) <= 0) return;
  }
}

}  // namespace nexus::net
