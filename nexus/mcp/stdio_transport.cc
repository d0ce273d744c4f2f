#include "nexus/mcp/stdio_transport.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/mcp/line_splitter.h"

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// After the child is gone, a grandchild may go on writing into the pipe; what
// the child itself left in it is read within this time.
constexpr int kFinalDrainMs = 200;
// A child that closes its stdout usually exits at once, and its exit code says
// more than the end of the stream does.
constexpr int kExitWaitMs = 500;
// How often the child is looked at where the system has no pidfd.
constexpr int kExitPollMs = 50;

// Signals of a new thread are those of its maker: blocked for the moment of
// creation, so that signal handlers of the program run on its own threads and
// a write to a dead child is EPIPE instead of SIGPIPE.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t saved_;
};

class StdioTransport final : public Transport {
 public:
  StdioTransport(const StdioTransportOptions& options, Subprocess process,
                 UniqueFd wake_read, UniqueFd wake_write)
      : options_(options),
        process_(std::move(process)),
        wake_read_(std::move(wake_read)),
        wake_write_(std::move(wake_write)),
        lines_({.on_line = [this](std::string_view line) { OnLine(line); },
                .on_oversized =
                    [this](size_t byte_count) { OnOversized(byte_count); }},
               options.max_message_bytes) {}

  ~StdioTransport() override { Shutdown(); }

  Status Start(Handlers handlers) override {
    handlers_ = std::move(handlers);
    const BlockedSignals blocked;
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error& e) {
      return ResourceExhaustedError(std::string("can't start a thread: ") +
                                    e.what());
    }
    return {};
  }

  Status Send(std::string_view message, const SendOptions&) override {
    {
      const std::lock_guard lock(mutex_);
      if (!closed_.ok()) return closed_;
      if (queued_bytes_ + message.size() > options_.max_queued_bytes) {
        return ResourceExhaustedError("the server doesn't read its stdin: " +
                                      std::to_string(queued_bytes_) +
                                      " bytes are waiting for it");
      }
      queued_bytes_ += message.size() + 1;
      queue_.emplace_back(message).push_back('\n');
    }
    Wake();
    return {};
  }

  void SetProtocolVersion(const std::string&) override {}

  Status Close() override {
    Shutdown();
    return {};
  }

  std::string Diagnostics() const override {
    const std::lock_guard lock(mutex_);
    const std::string lines = stderr_tail_.LastLines(options_.stderr_lines);
    if (lines.empty()) return "It wrote nothing to stderr.";
    return "The last lines of its stderr:\n" + lines;
  }

 private:
  void Shutdown() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      if (closed_.ok()) closed_ = CancelledError("the connection is closed");
    }
    Wake();
    if (thread_.joinable()) thread_.join();
  }

  void Wake() {
    const char byte = 0;
    // A full pipe has woken the thread already.
    [[maybe_unused]] const ssize_t ignored =
        ::write(wake_write_.get(), &byte, 1);
  }

  void OnLine(std::string_view line) { handlers_.on_message(line); }

  void OnOversized(size_t byte_count) {
    handlers_.on_lost(ResourceExhaustedError(
        "it sent a line of " + std::to_string(byte_count) +
        " bytes, the limit is " + std::to_string(options_.max_message_bytes)));
  }

  // The thread that owns the child.
  void Run() {
    Status end;
    while (end.ok()) {
      bool want_write;
      {
        const std::lock_guard lock(mutex_);
        if (closing_) break;
        want_write = !queue_.empty();
      }
      end = Step(want_write);
    }
    if (end.ok()) {
      WriteQueued();  // a last notifications/cancelled, if it fits the pipe
      const bool hurry = options_.hurry != nullptr && *options_.hurry;
      StopProcess(hurry ? options_.hurried_stop : options_.stop);
      return;
    }
    StopProcess({.grace_ms = 0, .term_ms = 100});
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      closed_ = end;
      queue_.clear();
      queued_bytes_ = 0;
    }
    handlers_.on_closed(end);
  }

  void StopProcess(const StopOptions& stop) {
    // Stop() appends to the tail, which Diagnostics() may be reading.
    TailBuffer last;
    process_.Stop(stop, &last);
    const std::lock_guard lock(mutex_);
    stderr_tail_.Append(last.LastLines(1000));
  }

  // One wait and what it brought. Not OK: the connection has ended.
  Status Step(bool want_write) {
    pollfd fds[5] = {{wake_read_.get(), POLLIN, 0},
                     {process_.stdout_fd(), POLLIN, 0},
                     {process_.stderr_fd(), POLLIN, 0},
                     {process_.exit_fd(), POLLIN, 0},
                     {want_write ? process_.stdin_fd() : -1, POLLOUT, 0}};
    const int ready =
        ::poll(fds, 5, process_.exit_fd() >= 0 ? -1 : kExitPollMs);
    if (ready < 0 && errno != EINTR) return ErrnoError("poll", "pipes", errno);
    if (fds[0].revents != 0) DrainWakePipe();
    if (fds[2].revents != 0) ReadStderr();
    if (fds[1].revents != 0 && !ReadStdout()) return EndOf("its stdout");
    if (process_.TryWait()) return EndOf("");
    if (fds[4].revents != 0 && !WriteQueued()) return EndOf("its stdin");
    return {};
  }

  // Reads what is left, and says how it ended. `stream` is what the child
  // closed, empty when it exited.
  Status EndOf(std::string_view stream) {
    const Clock& clock = Clock::Monotonic();
    nanoseconds deadline = clock.Now() + milliseconds(kExitWaitMs);
    while (!process_.TryWait() && clock.Now() < deadline) {
      pollfd fds[2] = {{process_.exit_fd(), POLLIN, 0},
                       {process_.stderr_fd(), POLLIN, 0}};
      if (::poll(fds, 2, 10) > 0 && fds[1].revents != 0) ReadStderr();
    }
    deadline = clock.Now() + milliseconds(kFinalDrainMs);
    while (process_.stdout_fd() >= 0 && clock.Now() < deadline) {
      pollfd fd = {process_.stdout_fd(), POLLIN, 0};
      if (::poll(&fd, 1, 0) <= 0 || !ReadStdout()) break;
    }
    while (process_.stderr_fd() >= 0 && clock.Now() < deadline) {
      pollfd fd = {process_.stderr_fd(), POLLIN, 0};
      if (::poll(&fd, 1, 0) <= 0) break;
      ReadStderr();
    }
    const auto exit = process_.TryWait();
    std::string message =
        exit ? "the server " + exit->ToString()
             : "the server closed " + std::string(stream) + " and was stopped";
    if (!lines_.partial().empty()) {
      message += " in the middle of a line (" +
                 std::to_string(lines_.partial().size()) + " bytes of it came)";
    }
    return UnavailableError(std::move(message));
  }

  void DrainWakePipe() const {
    std::array<char, 64> buffer;
    while (::read(wake_read_.get(), buffer.data(), buffer.size()) > 0) {
    }
  }

  // False at the end of the stream.
  bool ReadStdout() {
    const ssize_t count =
        ::read(process_.stdout_fd(), buffer_.data(), buffer_.size());
    if (count > 0) {
      lines_.Feed({buffer_.data(), static_cast<size_t>(count)});
      return true;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    process_.CloseStdout();
    return false;
  }

  void ReadStderr() {
    const ssize_t count =
        ::read(process_.stderr_fd(), buffer_.data(), buffer_.size());
    if (count > 0) {
      const std::lock_guard lock(mutex_);
      stderr_tail_.Append({buffer_.data(), static_cast<size_t>(count)});
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      process_.CloseStderr();
    }
  }

  // False once the child can't be written to any more.
  bool WriteQueued() {
    while (true) {
      std::string* front;
      {
        const std::lock_guard lock(mutex_);
        if (queue_.empty()) return true;
        front = &queue_.front();  // stable: others only append to the deque
      }
      const ssize_t count =
          ::write(process_.stdin_fd(), front->data() + front_offset_,
                  front->size() - front_offset_);
      if (count < 0) return errno == EAGAIN || errno == EINTR;
      front_offset_ += static_cast<size_t>(count);
      if (front_offset_ < front->size()) continue;
      const std::lock_guard lock(mutex_);
      queued_bytes_ -= front->size();
      queue_.pop_front();
      front_offset_ = 0;
    }
  }

  const StdioTransportOptions options_;
  Handlers handlers_;
  std::thread thread_;

  // Owned by the thread.
  Subprocess process_;
  UniqueFd wake_read_;
  UniqueFd wake_write_;  // written by any
  LineSplitter lines_;
  size_t front_offset_ = 0;  // sent bytes of queue_.front()
  std::array<char, 65536> buffer_;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<std::string> queue_;
  size_t queued_bytes_ = 0;
  bool closing_ = false;
  Status closed_;
  TailBuffer stderr_tail_;
};

}  // namespace

Result<std::unique_ptr<Transport>> NewStdioTransport(
    const StdioTransportOptions& options) {
  int fds[2];
  if (::pipe(fds) != 0) return ErrnoError("create", "pipe", errno);
  UniqueFd wake_read(fds[0]);
  UniqueFd wake_write(fds[1]);
  for (const int fd : fds) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 ||
        ::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) {
      return ErrnoError("set up", "pipe", errno);
    }
  }
  NEXUS_ASSIGN_OR_RETURN(Subprocess process,
                         Subprocess::Spawn(options.process));
  return std::unique_ptr<Transport>(std::make_unique<StdioTransport>(
      options, std::move(process), std::move(wake_read),
      std::move(wake_write)));
}

}  // namespace nexus::mcp
