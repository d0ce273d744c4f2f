// Subprocess: a child with its stdin, stdout and stderr on pipes, in a process
// group of its own.
//
// The child inherits the three pipes and no other descriptor, default signal
// handling and an empty signal mask. It isn't reaped before the group has been
// signalled for the last time, so the group's id can't have been reused.
#ifndef NEXUS_MCP_SUBPROCESS_H_
#define NEXUS_MCP_SUBPROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/base/unique_fd.h"

namespace nexus::mcp {

struct SubprocessOptions {
  std::string command;  // a path, or a name looked up in the child's PATH
  std::vector<std::string> args;
  std::map<std::string, std::string> env;  // added to this process's own
  std::string cwd;                         // empty: this process's
};

struct StopOptions {
  int grace_ms = 2000;  // between closing stdin and SIGTERM
  int term_ms = 2000;   // between SIGTERM and SIGKILL
};

struct ExitInfo {
  int code = 0;  // when signal == 0
  int signal = 0;
  // "exited with code 3", "was killed by signal 9 (Killed)".
  std::string ToString() const;
};

// The last bytes of a stream, cut to whole lines for an error message.
// Thread-compatible.
class TailBuffer {
 public:
  explicit TailBuffer(size_t max_bytes = 4096) : max_bytes_(max_bytes) {}
  void Append(std::string_view bytes);
  // At most `max_lines` last lines, without the final line end; bytes that
  // would disturb a terminal or aren't UTF-8 are replaced.
  std::string LastLines(int max_lines) const;

 private:
  size_t max_bytes_;
  std::string bytes_;
};

// Move-only. Thread-compatible.
class Subprocess {
 public:
  // kNotFound: no such command (with the remedy); kInvalidArgument: bad cwd or
  // a NUL byte; kIoError: the system refused.
  static Result<Subprocess> Spawn(const SubprocessOptions& options);

  // Kills the group at once when it is still running; Stop() is the kind way.
  ~Subprocess();
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  // Non-blocking ends; -1 after they were closed.
  int stdin_fd() const { return stdin_.get(); }
  int stdout_fd() const { return stdout_.get(); }
  int stderr_fd() const { return stderr_.get(); }
  // Readable once the child has exited; -1 where the system has no pidfd, and
  // then TryWait() must be polled.
  int exit_fd() const { return pidfd_.get(); }

  void CloseStdin() { stdin_.Reset(); }
  void CloseStdout() { stdout_.Reset(); }
  void CloseStderr() { stderr_.Reset(); }

  // Whether the child has exited; doesn't reap it.
  std::optional<ExitInfo> TryWait();
  // Closes stdin, waits, SIGTERM to the group, waits, SIGKILL to the group,
  // reaps. Output that still comes is thrown away, stderr goes to `tail`
  // (may be null). A grandchild that outlives the child is killed too.
  ExitInfo Stop(const StopOptions& options, TailBuffer* tail = nullptr);

 private:
  Subprocess() = default;
  void SignalGroup(int signal) const;
  void KillAndReap();

  pid_t pid_ = -1;
  UniqueFd stdin_;
  UniqueFd stdout_;
  UniqueFd stderr_;
  UniqueFd pidfd_;
  std::optional<ExitInfo> exit_;
};

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_SUBPROCESS_H_
