#include "nexus/llm/rpc_devices.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <span>

#include "ggml-rpc.h"

#include "nexus/base/unique_fd.h"
#include "nexus/llm/engine_log.h"
#include "nexus/llm/model.h"

namespace nexus::llm {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kProbeTimeout{5000};

// ggml-rpc's greeting: a command, the length of what follows, capabilities
// (none are claimed); back come a length, the version in three bytes, one of
// padding, and capabilities.
constexpr uint8_t kHello = 14;
constexpr size_t kCapabilityBytes = 24;
constexpr size_t kVersionBytes = 4;

struct HostPort {
  std::string host;
  std::string port;
};

Result<HostPort> ParseEndpoint(const std::string& endpoint) {
  const size_t colon = endpoint.find(':');
  const auto bad = InvalidArgumentError(
      "RPC server '" + endpoint +
      "': expected HOST:PORT, an IPv4 address or a name and a number");
  if (colon == std::string::npos || colon == 0) return bad;
  HostPort out = {endpoint.substr(0, colon), endpoint.substr(colon + 1)};
  int port = 0;
  const char* end = out.port.data() + out.port.size();
  const auto [rest, error] = std::from_chars(out.port.data(), end, port);
  if (error != std::errc() || rest != end || port < 1 || port > 65535) {
    return bad;
  }
  return out;
}

// A connection with a deadline for all that is done with it.
class Connection {
 public:
  explicit Connection(steady_clock::time_point deadline)
      : deadline_(deadline) {}

  bool Open(const HostPort& where) {
    addrinfo hints{};
    hints.ai_family = AF_INET;  // as the engine's client has it
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error =
        ::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
    if (error != 0) {
      why_ = ::gai_strerror(error);
      return false;
    }
    fd_.Reset(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::fcntl(fd_.get(), F_SETFL, O_NONBLOCK);
    const int connected =
        ::connect(fd_.get(), found->ai_addr, found->ai_addrlen);
    ::freeaddrinfo(found);
    if (connected == 0) return true;
    if (errno != EINPROGRESS) return Failed(errno);
    if (!Await(POLLOUT)) return false;
    int result = 0;
    socklen_t size = sizeof(result);
    ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &result, &size);
    return result == 0 || Failed(result);
  }

  bool Write(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      if (!Await(POLLOUT)) return false;
      const ssize_t sent =
          ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0) return Failed(errno);
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
    return true;
  }

  bool Read(std::span<uint8_t> bytes) {
    while (!bytes.empty()) {
      if (!Await(POLLIN)) return false;
      const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
      if (got < 0) return Failed(errno);
      if (got == 0) {
        why_ = "it closed the connection";
        return false;
      }
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
    return true;
  }

  const std::string& why() const { return why_; }

 private:
  bool Failed(int error) {
    why_ = std::strerror(error);
    return false;
  }

  bool Await(short events) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline_ - steady_clock::now());
    pollfd one = {fd_.get(), events, 0};
    const int wait = static_cast<int>(std::max<int64_t>(0, left.count()));
    if (::poll(&one, 1, wait) > 0) return true;
    why_ = "no answer in time";
    return false;
  }

  const steady_clock::time_point deadline_;
  UniqueFd fd_;
  std::string why_;
};

}  // namespace

Status ProbeRpcServer(const std::string& endpoint,
                      std::chrono::milliseconds timeout) {
  NEXUS_ASSIGN_OR_RETURN(const HostPort where, ParseEndpoint(endpoint));
  Connection server(steady_clock::now() + timeout);
  if (!server.Open(where)) {
    return UnavailableError("RPC server " + endpoint + ": " + server.why() +
                            "; is ggml-rpc-server running there?");
  }
  std::array<uint8_t, 1 + sizeof(uint64_t) + kCapabilityBytes> request{};
  request[0] = kHello;
  const uint64_t request_bytes = kCapabilityBytes;
  std::memcpy(request.data() + 1, &request_bytes, sizeof(request_bytes));
  uint64_t length = 0;
  std::array<uint8_t, kVersionBytes + kCapabilityBytes> answer{};
  const std::string other = "RPC server " + endpoint +
                            ": that isn't ggml-rpc-server of " +
                            EngineVersion();
  if (!server.Write(request) ||
      !server.Read({reinterpret_cast<uint8_t*>(&length), sizeof(length)})) {
    return IncompatibleError(other + " (" + server.why() + ")");
  }
  if (length != answer.size()) return IncompatibleError(other);
  if (!server.Read(answer)) {
    return IncompatibleError(other + " (" + server.why() + ")");
  }
  if (answer[0] != RPC_PROTO_MAJOR_VERSION ||
      answer[1] > RPC_PROTO_MINOR_VERSION) {
    return IncompatibleError(other + ": its protocol is " +
                             std::to_string(answer[0]) + "." +
                             std::to_string(answer[1]) + ", ours " +
                             std::to_string(RPC_PROTO_MAJOR_VERSION) + "." +
                             std::to_string(RPC_PROTO_MINOR_VERSION));
  }
  return Status::Ok();
}

Result<std::vector<ggml_backend_device*>> RpcDevices(
    const std::vector<std::string>& endpoints) {
  if (endpoints.size() > GGML_RPC_MAX_SERVERS) {
    return InvalidArgumentError(std::to_string(endpoints.size()) +
                                " RPC servers; the engine takes " +
                                std::to_string(GGML_RPC_MAX_SERVERS));
  }
  std::vector<ggml_backend_device*> devices;
  for (const std::string& endpoint : endpoints) {
    NEXUS_RETURN_IF_ERROR(ProbeRpcServer(endpoint, kProbeTimeout));
    const EngineLogCapture log;
    const ggml_backend_reg_t server =
        ggml_backend_rpc_add_server(endpoint.c_str());
    if (server == nullptr) {
      return UnavailableError("RPC server " + endpoint +
                              ": it offers no device: " + log.LastErrors());
    }
    for (size_t i = 0; i < ggml_backend_reg_dev_count(server); ++i) {
      devices.push_back(ggml_backend_reg_dev_get(server, i));
    }
  }
  return devices;
}

}  // namespace nexus::llm
