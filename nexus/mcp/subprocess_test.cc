#include "nexus/mcp/subprocess.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/clock.h"
#include "nexus/base/test_util.h"

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Everything on `fd` until its end.
std::string ReadAll(int fd) {
  std::string all;
  char buffer[4096];
  while (true) {
    pollfd waiting = {fd, POLLIN, 0};
    if (::poll(&waiting, 1, 10000) <= 0) return all + "<timeout>";
    const ssize_t count = ::read(fd, buffer, sizeof(buffer));
    if (count == 0) return all;
    if (count < 0) {
      if (errno == EAGAIN) continue;
      return all + "<error>";
    }
    all.append(buffer, static_cast<size_t>(count));
  }
}

Result<Subprocess> Shell(const std::string& script) {
  return Subprocess::Spawn({.command = "sh", .args = {"-c", script}});
}

std::optional<ExitInfo> WaitFor(Subprocess& process) {
  for (int i = 0; i < 1000; ++i) {
    if (const auto exit = process.TryWait()) return exit;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return std::nullopt;
}

bool IsAlive(pid_t pid) {
  if (::kill(pid, 0) != 0) return false;
  // A zombie that its new parent hasn't reaped yet counts as dead.
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(stat, line);
  return line.find(") Z ") == std::string::npos;
}

TEST(SubprocessTest, ConnectsAllThreeStreams) {
  ASSERT_OK_AND_ASSIGN(Subprocess process,
                       Shell("read x; echo \"out $x\"; echo \"err $x\" >&2"));
  ASSERT_EQ(::write(process.stdin_fd(), "hi\n", 3), 3);
  EXPECT_EQ(ReadAll(process.stdout_fd()), "out hi\n");
  EXPECT_EQ(ReadAll(process.stderr_fd()), "err hi\n");
  EXPECT_EQ(process.Stop({}).ToString(), "exited with code 0");
}

TEST(SubprocessTest, TellsExitCodeAndSignal) {
  ASSERT_OK_AND_ASSIGN(Subprocess coded, Shell("exit 9"));
  const auto code = WaitFor(coded);
  ASSERT_TRUE(code);
  EXPECT_EQ(code->code, 9);
  EXPECT_EQ(coded.Stop({}).code, 9);
  ASSERT_OK_AND_ASSIGN(Subprocess killed, Shell("kill -KILL $$"));
  const auto signal = WaitFor(killed);
  ASSERT_TRUE(signal);
  EXPECT_EQ(signal->signal, SIGKILL);
  EXPECT_THAT(signal->ToString(), HasSubstr("signal 9"));
}

TEST(SubprocessTest, LooksInTheChildsPath) {
  const ScopedTempDir folder;
  std::ofstream(folder.File("only-there")) << "#!/bin/sh\necho found\n";
  std::filesystem::permissions(folder.File("only-there"),
                               std::filesystem::perms::owner_all);
  ASSERT_OK_AND_ASSIGN(
      Subprocess process,
      Subprocess::Spawn({.command = "only-there",
                         .env = {{"PATH", "/nowhere:" + folder.path()}}}));
  EXPECT_EQ(ReadAll(process.stdout_fd()), "found\n");
  const auto missing = Subprocess::Spawn({.command = "only-there"});
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
}

TEST(SubprocessTest, RefusesWhatCannotBeAChild) {
  const std::string nul("a\0b", 3);
  for (const SubprocessOptions& options :
       {SubprocessOptions{}, SubprocessOptions{.command = nul},
        SubprocessOptions{.command = "sh", .args = {nul}},
        SubprocessOptions{.command = "sh", .env = {{"A=B", "c"}}},
        SubprocessOptions{.command = "sh", .env = {{"A", nul}}},
        SubprocessOptions{.command = "sh", .cwd = "/no/such"}}) {
    EXPECT_EQ(Subprocess::Spawn(options).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(SubprocessTest, StopIsKindFirst) {
  ASSERT_OK_AND_ASSIGN(Subprocess process,
                       Shell("while read x; do :; done; exit 5"));
  EXPECT_EQ(process.Stop({.grace_ms = 10000}).code, 5);
}

TEST(SubprocessTest, StopReadsWhatTheChildStillWrites) {
  // More than a pipe holds: without a reader it would never see the end.
  ASSERT_OK_AND_ASSIGN(
      Subprocess process,
      Shell("read x; head -c 300000 /dev/zero; echo bye >&2; exit 6"));
  TailBuffer tail;
  EXPECT_EQ(process.Stop({.grace_ms = 20000}, &tail).code, 6);
  EXPECT_EQ(tail.LastLines(5), "bye");
}

TEST(SubprocessTest, StopTermsThenKillsTheWholeGroup) {
  ASSERT_OK_AND_ASSIGN(Subprocess polite, Shell("exec sleep 60"));
  EXPECT_EQ(polite.Stop({.grace_ms = 20, .term_ms = 10000}).signal, SIGTERM);
  ASSERT_OK_AND_ASSIGN(
      Subprocess rude,
      Shell("trap '' TERM; sleep 60 & echo $!; while :; do sleep 1; done"));
  std::string line;
  while (line.empty() || line.back() != '\n') {
    char byte;
    if (::read(rude.stdout_fd(), &byte, 1) == 1) {
      line += byte;
    } else {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  const pid_t grandchild = std::stoi(line);
  EXPECT_TRUE(IsAlive(grandchild));
  EXPECT_EQ(rude.Stop({.grace_ms = 20, .term_ms = 50}).signal, SIGKILL);
  for (int i = 0; i < 500 && IsAlive(grandchild); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_FALSE(IsAlive(grandchild));
}

TEST(SubprocessTest, DestructorLeavesNoProcess) {
  pid_t pid = -1;
  {
    ASSERT_OK_AND_ASSIGN(Subprocess process, Shell("exec sleep 60"));
    pid = process.pid();
    Subprocess moved = std::move(process);
    EXPECT_EQ(moved.pid(), pid);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(TailBufferTest, KeepsTheLastWholeLines) {
  TailBuffer tail(64);
  for (int i = 0; i < 1000; ++i) {
    tail.Append("line " + std::to_string(i) + "\n");
  }
  EXPECT_EQ(tail.LastLines(2), "line 998\nline 999");
  EXPECT_EQ(tail.LastLines(1), "line 999");
}

TEST(TailBufferTest, ReplacesBytesThatDisturbATerminal) {
  TailBuffer tail;
  tail.Append("\x1B[31mred\xFF\tx\r\n");
  EXPECT_EQ(tail.LastLines(3), "?[31mred?\tx");
  EXPECT_EQ(TailBuffer().LastLines(3), "");
}

}  // namespace
}  // namespace nexus::mcp
