#include "nexus/pull/child_process.h"

#include <signal.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::pull {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

ChildProcess Shell(const ScopedTempDir& dir, const std::string& script) {
  ChildProcess child;
  child.argv = {"sh", "-c", script};
  child.log_path = dir.File("log");
  return child;
}

// A process that was killed but not yet reaped by init still answers to signal
// 0 for a moment.
bool GoneWithin(pid_t pid, milliseconds limit) {
  const auto deadline = Steady::now() + limit;
  while (Steady::now() < deadline) {
    if (::kill(pid, 0) != 0 && errno == ESRCH) return true;
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string pid_text, name, state;
    if (stat >> pid_text >> name >> state && state == "Z") return true;
    std::this_thread::sleep_for(milliseconds(10));
  }
  return false;
}

TEST(ChildProcessTest, ReturnsTheExitStatus) {
  const ScopedTempDir dir;
  ASSERT_OK_AND_ASSIGN(const int status, RunToEnd(Shell(dir, "exit 7")));
  EXPECT_EQ(status, 7);
}

TEST(ChildProcessTest, ReportsASignalAs128PlusItsNumber) {
  const ScopedTempDir dir;
  ASSERT_OK_AND_ASSIGN(const int status, RunToEnd(Shell(dir, "kill -9 $$")));
  EXPECT_EQ(status, 128 + 9);
}

TEST(ChildProcessTest, LogsBothStreamsAndReadsNothing) {
  const ScopedTempDir dir;
  ASSERT_OK_AND_ASSIGN(
      const int status,
      RunToEnd(Shell(dir, "cat; echo out; echo err >&2; exit 0")));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(TailOfFile(dir.File("log"), 100), "out\nerr\n");
  EXPECT_EQ(TailOfFile(dir.File("log"), 4), "err\n");
}

TEST(ChildProcessTest, PassesAndOverridesTheEnvironment) {
  const ScopedTempDir dir;
  ASSERT_EQ(::setenv("NEXUS_CHILD_TEST", "old", 1), 0);
  ChildProcess child = Shell(dir, "echo \"$NEXUS_CHILD_TEST$HOME\"");
  child.env = {{"NEXUS_CHILD_TEST", "new"}, {"HOME", "/h"}};
  ASSERT_OK_AND_ASSIGN(const int status, RunToEnd(child));
  EXPECT_EQ(status, 0);
  EXPECT_EQ(TailOfFile(dir.File("log"), 100), "new/h\n");
}

TEST(ChildProcessTest, NamesAProgramThatDoesNotExist) {
  const ScopedTempDir dir;
  ChildProcess child = Shell(dir, "");
  child.argv = {"nexus-no-such-program"};
  const Result<int> status = RunToEnd(child);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.status().code(), StatusCode::kNotFound);
  EXPECT_NE(status.status().message().find("nexus-no-such-program"),
            std::string::npos);
}

TEST(ChildProcessTest, StopsTheWholeGroup) {
  const ScopedTempDir dir;
  // The grandchild ignores SIGTERM and would sleep on.
  ChildProcess child =
      Shell(dir, "sh -c 'trap \"\" TERM; echo $$; sleep 60; sleep 60' & wait");
  pid_t grandchild = 0;
  child.keep_running = [&] {
    const std::string log = TailOfFile(child.log_path, 100);
    if (!log.ends_with('\n')) return true;
    grandchild = std::stoi(log);
    return false;
  };
  const auto start = Steady::now();
  const Result<int> status = RunToEnd(child);
  EXPECT_EQ(status.status().code(), StatusCode::kCancelled);
  EXPECT_LT(Steady::now() - start, seconds(10));
  ASSERT_GT(grandchild, 0);
  EXPECT_TRUE(GoneWithin(grandchild, milliseconds(5000)));
}

TEST(ChildProcessTest, KillsAChildThatIgnoresTermination) {
  const ScopedTempDir dir;
  ChildProcess child =
      Shell(dir, "trap '' TERM; echo $$; while :; do sleep 1; done");
  pid_t pid = 0;
  child.keep_running = [&] {
    const std::string log = TailOfFile(child.log_path, 100);
    if (!log.ends_with('\n')) return true;
    pid = std::stoi(log);
    return false;
  };
  const Result<int> status = RunToEnd(child);
  EXPECT_EQ(status.status().code(), StatusCode::kCancelled);
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(GoneWithin(pid, milliseconds(5000)));
}

TEST(ChildProcessTest, TailOfAMissingFileIsEmpty) {
  EXPECT_EQ(TailOfFile("/nonexistent/log", 10), "");
}

}  // namespace
}  // namespace nexus::pull
