#include "nexus/gateway/stdio_server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "nexus/gateway/incoming.h"
#include "nexus/gateway/outbox.h"
#include "nexus/gateway/session.h"
#include "nexus/mcp/line_splitter.h"
#include "nexus/net/worker_pool.h"

namespace nexus::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{50};
// What is still to be written when all is over; a client that takes its answers
// takes them in this time.
constexpr milliseconds kLastWrites{2000};

class StdioServer {
 public:
  StdioServer(Gateway* gateway, const StdioServerOptions& options)
      : options_(options),
        outbox_(options.max_unread_bytes),
        session_(gateway,
                 {.version = options.version,
                  .max_requests = options.max_requests,
                  .notify =
                      [this](const mcp::RpcNotification& notification) {
                        // Full of unread messages: the answers matter more.
                        [[maybe_unused]] const bool dropped =
                            outbox_.Push(mcp::SerializeRpc(notification));
                      }}),
        // One more than may run: the pool's threads also refuse.
        workers_(options.max_requests + 1),
        writer_([this] { Write(); }) {}

  Status Run() {
    mcp::LineSplitter lines(
        {.on_line = [this](std::string_view line) { Take(line); },
         .on_oversized =
             [this](size_t byte_count) {
               Send(mcp::SerializeRpc(ErrorResponse(
                   {}, mcp::rpc_error::kInvalidRequest,
                   "a message of " + std::to_string(byte_count) +
                       " bytes; at most " +
                       std::to_string(kMaxClientMessageBytes) + " are read")));
             }},
        kMaxClientMessageBytes);
    Read(&lines);
    Drain();
    session_.CancelAll();
    workers_.Shutdown();
    for (const mcp::RpcResponse& end : session_.EndSubscriptions()) {
      Send(mcp::SerializeRpc(end));
    }
    outbox_.Close();
    last_write_ = steady_clock::now() + kLastWrites;
    ending_ = true;
    writer_.join();
    if (overrun_) {
      return ResourceExhaustedError("the client left " +
                                    std::to_string(options_.max_unread_bytes) +
                                    " bytes unread");
    }
    return {};
  }

 private:
  bool Stopped() const {
    return client_gone_ || overrun_ ||
           (options_.stop != nullptr && *options_.stop);
  }

  void Read(mcp::LineSplitter* lines) {
    std::vector<char> buffer(size_t{64} << 10);
    while (!Stopped()) {
      pollfd wait{.fd = options_.in_fd, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&wait, 1, static_cast<int>(kPoll.count()));
      if (ready <= 0) continue;
      const ssize_t count =
          ::read(options_.in_fd, buffer.data(), buffer.size());
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) return;
      lines->Feed({buffer.data(), static_cast<size_t>(count)});
    }
  }

  void Drain() {
    const auto deadline = steady_clock::now() + options_.drain;
    while (!Stopped() && session_.running() > 0 &&
           steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  void Send(std::string text) {
    if (!outbox_.Push(std::move(text))) overrun_ = true;
  }

  NotificationSink Emit() {
    return [this](const mcp::RpcNotification& notification) {
      Send(mcp::SerializeRpc(notification));
    };
  }

  void Take(std::string_view line) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    Incoming incoming = ReadIncoming(line);
    if (incoming.is_batch && !incoming.refusal &&
        session_.revision() != kBatchRevision) {
      incoming.refusal = ErrorResponse({}, mcp::rpc_error::kInvalidRequest,
                                       std::string("a batch: only revision ") +
                                           kBatchRevision + " has those");
    }
    if (incoming.refusal) {
      Send(mcp::SerializeRpc(*incoming.refusal));
      return;
    }
    // Admitted in the order of the lines, so that a cancellation finds its
    // request.
    std::vector<std::shared_ptr<Session::Ticket>> tickets;
    for (mcp::RpcMessage& message : incoming.messages) {
      if (auto* request = std::get_if<mcp::RpcRequest>(&message)) {
        tickets.push_back(session_.Admit(std::move(*request)));
      } else if (const auto* notification =
                     std::get_if<mcp::RpcNotification>(&message)) {
        session_.Handle(*notification);
      }
      // A response: the gateway asks its clients nothing.
    }
    if (tickets.empty()) return;
    const bool is_quick =
        std::all_of(tickets.begin(), tickets.end(), [](const auto& ticket) {
          return ticket->refusal || Session::IsQuick(ticket->request.method);
        });
    auto task = [this, tickets, is_batch = incoming.is_batch] {
      Answer(tickets, is_batch);
    };
    // Without a thread: here, which is late but not lost.
    if (is_quick || !workers_.Start(task)) task();
  }

  void Answer(const std::vector<std::shared_ptr<Session::Ticket>>& tickets,
              bool is_batch) {
    std::string text;
    for (const auto& ticket : tickets) {
      const auto response = session_.Run(ticket, Emit());
      if (!response) continue;
      if (!text.empty()) text += ',';
      text += mcp::SerializeRpc(*response);
    }
    if (text.empty()) return;
    Send(is_batch ? "[" + text + "]" : std::move(text));
  }

  void Write() {
    while (!client_gone_) {
      // Asked first: what comes between an empty look and the end isn't lost.
      const bool was_ending = ending_;
      auto text = outbox_.Pop(kPoll);
      if (text) {
        *text += '\n';
        if (!WriteAll(*text)) client_gone_ = true;
      } else if (was_ending) {
        return;
      }
    }
  }

  // In pieces that a pipe takes whole once it is writable, so that a client
  // that doesn't read can't hold this thread.
  bool WriteAll(std::string_view bytes) {
    while (!bytes.empty()) {
      if (ending_ && steady_clock::now() > last_write_) return false;
      pollfd wait{.fd = options_.out_fd, .events = POLLOUT, .revents = 0};
      const int ready = ::poll(&wait, 1, static_cast<int>(kPoll.count()));
      if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
      if (ready < 0) return false;
      const ssize_t count = ::write(options_.out_fd, bytes.data(),
                                    std::min<size_t>(bytes.size(), PIPE_BUF));
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }

  const StdioServerOptions options_;
  std::atomic<bool> client_gone_{false};
  std::atomic<bool> overrun_{false};
  std::atomic<bool> ending_{false};
  steady_clock::time_point last_write_{};  // set before ending_
  Outbox outbox_;
  Session session_;
  net::WorkerPool workers_;
  std::thread writer_;
};

}  // namespace

Status ServeStdio(Gateway* gateway, const StdioServerOptions& options) {
  return StdioServer(gateway, options).Run();
}

}  // namespace nexus::gateway
