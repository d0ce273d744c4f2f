#include "nexus/pull/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

extern char** environ;

namespace nexus::pull {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds kPollInterval{100};
constexpr milliseconds kTermGrace{2000};

// RAII over the two posix_spawn structures.
class SpawnSetup {
 public:
  SpawnSetup() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  int RedirectTo(const std::string& log_path) {
    int error = posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO,
                                                 "/dev/null", O_RDONLY, 0);
    if (error == 0) {
      error = posix_spawn_file_actions_addopen(
          &actions_, STDOUT_FILENO, log_path.c_str(),
          O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    }
    if (error == 0) {
      error = posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO,
                                               STDERR_FILENO);
    }
    return error;
  }

  // A group of its own, no blocked signals, and default handling of those that
  // we may have changed.
  int Isolate() {
    sigset_t none;
    sigemptyset(&none);
    sigset_t defaults;
    sigemptyset(&defaults);
    for (int signal : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) {
      sigaddset(&defaults, signal);
    }
    int error = posix_spawnattr_setpgroup(&attributes_, 0);
    if (error == 0) error = posix_spawnattr_setsigmask(&attributes_, &none);
    if (error == 0) {
      error = posix_spawnattr_setsigdefault(&attributes_, &defaults);
    }
    if (error == 0) {
      error = posix_spawnattr_setflags(
          &attributes_,
          static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                             POSIX_SPAWN_SETSIGDEF));
    }
    return error;
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<std::string> MergedEnvironment(const ChildProcess& child) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    bool replaced = false;
    for (const auto& [name, value] : child.env) {
      replaced |= text.starts_with(name + "=");
    }
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : child.env) {
    merged.push_back(name + "=" + value);
  }
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// True once the child has ended; `wait_status` is then set. A child that can't
// be waited for (reaped elsewhere) counts as ended with status 0x7f00.
bool Reaped(pid_t pid, int* wait_status) {
  const pid_t got = ::waitpid(pid, wait_status, WNOHANG);
  if (got == pid) return true;
  if (got < 0 && errno != EINTR) {
    *wait_status = 127 << 8;
    return true;
  }
  return false;
}

void StopGroup(pid_t pid) {
  ::kill(-pid, SIGTERM);
  int wait_status = 0;
  const auto deadline = Steady::now() + kTermGrace;
  while (Steady::now() < deadline) {
    if (Reaped(pid, &wait_status)) {
      // The leader went; what it started may still ignore SIGTERM.
      ::kill(-pid, SIGKILL);
      return;
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<int> RunToEnd(const ChildProcess& child) {
  if (child.argv.empty()) {
    return InvalidArgumentError("child process: no program named");
  }
  SpawnSetup setup;
  int error = setup.RedirectTo(child.log_path);
  if (error == 0) error = setup.Isolate();
  if (error != 0) return ErrnoError("prepare", child.argv.front(), error);

  std::vector<std::string> argv = child.argv;
  std::vector<std::string> environment = MergedEnvironment(child);
  std::vector<char*> argv_pointers = Pointers(argv);
  std::vector<char*> environment_pointers = Pointers(environment);
  pid_t pid = 0;
  error = ::posix_spawnp(&pid, argv.front().c_str(), setup.actions(),
                         setup.attributes(), argv_pointers.data(),
                         environment_pointers.data());
  if (error == ENOENT) {
    return NotFoundError("program '" + argv.front() + "' isn't installed");
  }
  if (error != 0) return ErrnoError("start", argv.front(), error);

  int wait_status = 0;
  // Short waits first: most children of the tests end within milliseconds.
  auto pause = milliseconds(1);
  while (!Reaped(pid, &wait_status)) {
    if (child.keep_running && !child.keep_running()) {
      StopGroup(pid);
      return CancelledError("'" + argv.front() + "' was stopped");
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kPollInterval);
  }
  if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
  return WEXITSTATUS(wait_status);
}

std::string TailOfFile(const std::string& path, size_t max_bytes) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  const auto take = std::min(size, static_cast<std::streamoff>(max_bytes));
  in.seekg(size - take);
  std::string text(static_cast<size_t>(take), '\0');
  in.read(text.data(), take);
  text.resize(static_cast<size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  return text;
}

}  // namespace nexus::pull
