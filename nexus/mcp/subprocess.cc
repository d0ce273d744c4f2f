#include "nexus/mcp/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "nexus/base/clock.h"

extern "C" {
extern char** environ;
}

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Result<Pipe> NewPipe() {
  int fds[2];
#ifdef __linux__
  const int rc = ::pipe2(fds, O_CLOEXEC);
#else
  const int rc = ::pipe(fds);
#endif
  if (rc != 0) return ErrnoError("create", "pipe", errno);
#ifndef __linux__
  ::fcntl(fds[0], F_SETFD, FD_CLOEXEC);
  ::fcntl(fds[1], F_SETFD, FD_CLOEXEC);
#endif
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Status SetNonBlocking(const UniqueFd& fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) < 0) {
    return ErrnoError("set non-blocking", "pipe", errno);
  }
  return {};
}

std::map<std::string, std::string> MergedEnvironment(
    const std::map<std::string, std::string>& added) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    merged[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : added) merged[name] = value;
  return merged;
}

bool IsExecutableFile(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

// The search that execvp does, but in the child's PATH rather than ours, and
// before the fork, so that the error can say where was looked.
Result<std::string> ResolveCommand(const std::string& command,
                                   const std::string& path_variable) {
  if (command.find('/') != std::string::npos) return command;
  std::string_view rest = path_variable;
  while (true) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, colon));
    const std::string candidate =
        (folder.empty() ? std::string(".") : folder) + "/" + command;
    if (IsExecutableFile(candidate)) return candidate;
    if (colon == rest.size()) break;
    rest.remove_prefix(colon + 1);
  }
  return NotFoundError("command '" + command +
                       "' not found; install it, write its full path, or add "
                       "its folder to PATH (searched: " +
                       path_variable + ")");
}

Status CheckNoNul(const std::string& text, std::string_view what) {
  if (text.find('\0') == std::string::npos) return {};
  return InvalidArgumentError(std::string(what) + " contains a NUL byte");
}

Status CheckOptions(const SubprocessOptions& options) {
  if (options.command.empty()) {
    return InvalidArgumentError("the command is empty");
  }
  NEXUS_RETURN_IF_ERROR(CheckNoNul(options.command, "the command"));
  NEXUS_RETURN_IF_ERROR(CheckNoNul(options.cwd, "the working folder"));
  for (const std::string& arg : options.args) {
    NEXUS_RETURN_IF_ERROR(CheckNoNul(arg, "an argument"));
  }
  for (const auto& [name, value] : options.env) {
    NEXUS_RETURN_IF_ERROR(CheckNoNul(name, "an environment variable's name"));
    NEXUS_RETURN_IF_ERROR(CheckNoNul(value, "environment variable " + name));
    if (name.empty() || name.find('=') != std::string::npos) {
      return InvalidArgumentError("'" + name +
                                  "' can't name an environment variable");
    }
  }
  if (options.cwd.empty()) return {};
  struct stat info;
  if (::stat(options.cwd.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return InvalidArgumentError("the working folder '" + options.cwd +
                                "' doesn't exist or isn't a folder");
  }
  return {};
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// posix_spawn's two parameter blocks, destroyed together.
class SpawnSetup {
 public:
  SpawnSetup() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  // The first error of the calls below, 0 if none.
  int Prepare(const Pipe& in, const Pipe& out, const Pipe& err,
              const std::string& cwd) {
    Keep(::posix_spawn_file_actions_adddup2(&actions_, in.read_end.get(), 0));
    Keep(::posix_spawn_file_actions_adddup2(&actions_, out.write_end.get(), 1));
    Keep(::posix_spawn_file_actions_adddup2(&actions_, err.write_end.get(), 2));
    if (!cwd.empty()) {
      Keep(::posix_spawn_file_actions_addchdir_np(&actions_, cwd.c_str()));
    }
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |  // NOLINT
                  POSIX_SPAWN_SETSIGDEF;
    // Descriptors that other code opened without close-on-exec must not reach
    // the child: a pipe held open there would never see its end.
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    Keep(::posix_spawn_file_actions_addclosefrom_np(&actions_, 3));
#elif defined(POSIX_SPAWN_CLOEXEC_DEFAULT)
    flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
    Keep(::posix_spawnattr_setflags(&attributes_, flags));
    Keep(::posix_spawnattr_setpgroup(&attributes_, 0));
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    Keep(::posix_spawnattr_setsigmask(&attributes_, &none));
    Keep(::posix_spawnattr_setsigdefault(&attributes_, &all));
    return error_;
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  void Keep(int error) {
    if (error_ == 0) error_ = error;
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int error_ = 0;
};

UniqueFd OpenPidfd([[maybe_unused]] pid_t pid) {
#if defined(__linux__) && defined(SYS_pidfd_open)
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
#else
  return {};
#endif
}

// False at the end of the stream or on an error.
bool DrainOnce(int fd, TailBuffer* tail) {
  std::array<char, 16384> buffer;
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count > 0) {
    if (tail != nullptr) {
      tail->Append({buffer.data(), static_cast<size_t>(count)});
    }
    return true;
  }
  return count < 0 && (errno == EAGAIN || errno == EINTR);
}

}  // namespace

std::string ExitInfo::ToString() const {
  if (signal == 0) return "exited with code " + std::to_string(code);
  const char* name = ::strsignal(signal);
  return "was killed by signal " + std::to_string(signal) + " (" +
         (name != nullptr ? name : "unknown") + ")";
}

void TailBuffer::Append(std::string_view bytes) {
  if (bytes.size() >= max_bytes_) {
    bytes_ = bytes.substr(bytes.size() - max_bytes_);
    return;
  }
  bytes_.append(bytes);
  // Twice the limit before cutting, so that a flood of short writes costs one
  // move per max_bytes and not one per write.
  if (bytes_.size() > 2 * max_bytes_) {
    bytes_.erase(0, bytes_.size() - max_bytes_);
  }
}

std::string TailBuffer::LastLines(int max_lines) const {
  std::string_view text = bytes_;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  size_t start = text.size();
  for (int line = 0; line < max_lines && start > 0; ++line) {
    const size_t newline = text.rfind('\n', start - 1);
    start = newline == std::string_view::npos ? 0 : newline;
  }
  if (start < text.size() && text[start] == '\n') ++start;
  std::string lines(text.substr(start));
  for (char& c : lines) {
    const auto byte = static_cast<unsigned char>(c);
    if (c != '\n' && c != '\t' && (byte < 0x20 || byte >= 0x7F)) c = '?';
  }
  return lines;
}

Result<Subprocess> Subprocess::Spawn(const SubprocessOptions& options) {
  NEXUS_RETURN_IF_ERROR(CheckOptions(options));
  const auto environment = MergedEnvironment(options.env);
  const auto path = environment.find("PATH");
  NEXUS_ASSIGN_OR_RETURN(
      const std::string program,
      ResolveCommand(options.command, path == environment.end()
                                          ? std::string("/usr/bin:/bin")
                                          : path->second));
  NEXUS_ASSIGN_OR_RETURN(Pipe in, NewPipe());
  NEXUS_ASSIGN_OR_RETURN(Pipe out, NewPipe());
  NEXUS_ASSIGN_OR_RETURN(Pipe err, NewPipe());
  NEXUS_RETURN_IF_ERROR(SetNonBlocking(in.write_end));
  NEXUS_RETURN_IF_ERROR(SetNonBlocking(out.read_end));
  NEXUS_RETURN_IF_ERROR(SetNonBlocking(err.read_end));

  std::vector<std::string> argument_strings = {options.command};
  argument_strings.insert(argument_strings.end(), options.args.begin(),
                          options.args.end());
  std::vector<std::string> environment_strings;
  for (const auto& [name, value] : environment) {
    environment_strings.push_back(name + "=" + value);
  }
  SpawnSetup setup;
  int error = setup.Prepare(in, out, err, options.cwd);
  Subprocess child;
  if (error == 0) {
    error = ::posix_spawn(&child.pid_, program.c_str(), setup.actions(),
                          setup.attributes(), Pointers(argument_strings).data(),
                          Pointers(environment_strings).data());
  }
  if (error != 0) {
    child.pid_ = -1;
    if (error == ENOENT || error == EACCES || error == ENOEXEC) {
      return NotFoundError("can't start '" + program +
                           "': " + std::strerror(error) +
                           "; check that it exists, is executable and that "
                           "its interpreter is installed");
    }
    return ErrnoError("start", program, error);
  }
  child.stdin_ = std::move(in.write_end);
  child.stdout_ = std::move(out.read_end);
  child.stderr_ = std::move(err.read_end);
  child.pidfd_ = OpenPidfd(child.pid_);
  return child;
}

Subprocess::~Subprocess() { KillAndReap(); }

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stdin_(std::move(other.stdin_)),
      stdout_(std::move(other.stdout_)),
      stderr_(std::move(other.stderr_)),
      pidfd_(std::move(other.pidfd_)),
      exit_(std::exchange(other.exit_, std::nullopt)) {}

Subprocess& Subprocess::operator=(Subprocess&& other) noexcept {
  if (this != &other) {
    KillAndReap();
    pid_ = std::exchange(other.pid_, -1);
    stdin_ = std::move(other.stdin_);
    stdout_ = std::move(other.stdout_);
    stderr_ = std::move(other.stderr_);
    pidfd_ = std::move(other.pidfd_);
    exit_ = std::exchange(other.exit_, std::nullopt);
  }
  return *this;
}

std::optional<ExitInfo> Subprocess::TryWait() {
  if (exit_ || pid_ < 0) return exit_;
  siginfo_t info = {};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info,
               WEXITED | WNOHANG | WNOWAIT) != 0) {
    // ECHILD: somebody ignores SIGCHLD, and the exit status is lost.
    if (errno == ECHILD) exit_ = ExitInfo{};
    return exit_;
  }
  if (info.si_pid == 0) return std::nullopt;
  exit_ = info.si_code == CLD_EXITED ? ExitInfo{.code = info.si_status}
                                     : ExitInfo{.signal = info.si_status};
  return exit_;
}

ExitInfo Subprocess::Stop(const StopOptions& options, TailBuffer* tail) {
  const Clock& clock = Clock::Monotonic();
  CloseStdin();
  // Drains while it waits: a child that still has output to write must get
  // rid of it before it can see the end of its stdin.
  const auto wait_for = [&](int timeout_ms) {
    const nanoseconds deadline = clock.Now() + milliseconds(timeout_ms);
    while (!TryWait()) {
      const nanoseconds left = deadline - clock.Now();
      if (left <= nanoseconds::zero()) return false;
      constexpr int kPollMs = 20;  // where there is no pidfd
      pollfd fds[3] = {{stdout_.get(), POLLIN, 0},
                       {stderr_.get(), POLLIN, 0},
                       {pidfd_.get(), POLLIN, 0}};
      const int left_ms = static_cast<int>(Milliseconds(left)) + 1;
      const int wait_ms = pidfd_.valid() ? left_ms : std::min(left_ms, kPollMs);
      if (::poll(fds, 3, wait_ms) <= 0) continue;
      if (fds[0].revents != 0 && !DrainOnce(fds[0].fd, nullptr)) {
        CloseStdout();
      }
      if (fds[1].revents != 0 && !DrainOnce(fds[1].fd, tail)) CloseStderr();
    }
    return true;
  };
  if (!wait_for(options.grace_ms)) {
    SignalGroup(SIGTERM);
    wait_for(options.term_ms);
  }
  while (stderr_.valid() && tail != nullptr) {
    pollfd fd = {stderr_.get(), POLLIN, 0};
    if (::poll(&fd, 1, 0) <= 0 || !DrainOnce(fd.fd, tail)) break;
  }
  KillAndReap();
  return exit_.value_or(ExitInfo{});
}

void Subprocess::SignalGroup(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

void Subprocess::KillAndReap() {
  if (pid_ < 0) return;
  SignalGroup(SIGKILL);
  int status = 0;
  pid_t reaped;
  do {
    reaped = ::waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  if (!exit_ && reaped == pid_) {
    exit_ = WIFSIGNALED(status) ? ExitInfo{.signal = WTERMSIG(status)}
                                : ExitInfo{.code = WEXITSTATUS(status)};
  }
  pid_ = -1;
  stdin_.Reset();
  stdout_.Reset();
  stderr_.Reset();
  pidfd_.Reset();
}

}  // namespace nexus::mcp
