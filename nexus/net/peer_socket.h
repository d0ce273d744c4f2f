// What an HTTP server does with a client's socket besides reading and writing.
//
// Internal to nexus/net.
#ifndef NEXUS_NET_PEER_SOCKET_H_
#define NEXUS_NET_PEER_SOCKET_H_

#include <cstddef>
#include <string>

#include "nexus/base/unique_fd.h"

namespace nexus::net {

// Address and port of the other end; left as they are where there is none.
void PeerOf(int fd, std::string* ip, int* port);

// How many connections of those wanted this process may have files for. With no
// descriptor left an accept loop would turn without end.
size_t ConnectionLimit(size_t wanted);

// Ends a connection so that what was written arrives: with unread bytes in the
// receive buffer a plain close would reset it and take the answer along.
void CloseGently(UniqueFd fd);

// Takes what has come out of the receive buffer, without waiting for more: the
// quick half of CloseGently.
void DropReceived(int fd);

}  // namespace nexus::net

#endif  // NEXUS_NET_PEER_SOCKET_H_
