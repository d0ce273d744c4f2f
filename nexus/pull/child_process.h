// Runs a program to its end, with a way to stop it and everything it started.
//
// The child leads a process group of its own, reads nothing, and writes to a
// log file instead of a pipe: a grandchild that outlives it can then never
// block us.
#ifndef NEXUS_PULL_CHILD_PROCESS_H_
#define NEXUS_PULL_CHILD_PROCESS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::pull {

struct ChildProcess {
  std::vector<std::string> argv;  // argv[0] is looked up in the PATH
  std::vector<std::pair<std::string, std::string>> env;  // beyond our own
  std::string log_path;  // receives standard output and standard error
  // Called every 100 ms; false stops the child's whole group (SIGTERM, after
  // two seconds SIGKILL).
  std::function<bool()> keep_running;
};

// The exit status (128 + signal if a signal ended it). kNotFound if the program
// does not exist, kCancelled if keep_running said so. No child is left behind
// on any path.
Result<int> RunToEnd(const ChildProcess& child);

// The last `max_bytes` of a file, "" if there is none.
std::string TailOfFile(const std::string& path, size_t max_bytes);

}  // namespace nexus::pull

#endif  // NEXUS_PULL_CHILD_PROCESS_H_
