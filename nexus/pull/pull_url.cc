// Any GGUF file by its URL, fetched by curl as a child process.

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/pull/child_process.h"
#include "nexus/pull/download.h"

namespace nexus::pull {
namespace {

namespace fs = std::filesystem;

// Exit codes of curl that have a remedy of their own.
constexpr int kCurlWriteError = 23;
constexpr int kCurlRangeRefused = 33;

struct ParsedUrl {
  std::string url;     // without the fragment
  std::string file;    // last component of the path
  std::string sha256;  // "" if the fragment named none
};

bool IsPlainFileName(std::string_view name) {
  if (name.empty() || name.front() == '.') return false;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                       c == '.';
    if (!plain) return false;
  }
  return true;
}

Result<ParsedUrl> ParseUrl(std::string_view text) {
  ParsedUrl parsed;
  const size_t fragment = text.find('#');
  parsed.url = text.substr(0, fragment);
  if (fragment != std::string_view::npos) {
    constexpr std::string_view kKey = "sha256=";
    const std::string_view value = text.substr(fragment + 1);
    if (!value.starts_with(kKey)) {
      return InvalidArgumentError("URL '" + std::string(text) +
                                  "': after # only sha256=HEX is understood");
    }
    NEXUS_ASSIGN_OR_RETURN(const Sha256Digest digest,
                           ParseSha256Hex(value.substr(kKey.size())));
    parsed.sha256 = ToHex(digest);
  }
  const std::string_view path =
      std::string_view(parsed.url).substr(0, parsed.url.find('?'));
  parsed.file = path.substr(path.find_last_of('/') + 1);
  if (!IsPlainFileName(parsed.file) || !parsed.file.ends_with(".gguf")) {
    return InvalidArgumentError("URL '" + parsed.url +
                                "' does not end in the name of a .gguf file");
  }
  return parsed;
}

}  // namespace

Result<std::string> PullUrl(std::string_view url, const PullOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(const ParsedUrl parsed, ParseUrl(url));
  NEXUS_ASSIGN_OR_RETURN(const Download download,
                         Download::Begin(parsed.file, options));
  NEXUS_ASSIGN_OR_RETURN(const bool here, download.AlreadyHere(parsed.sha256));
  if (here) return download.final_path();
  NEXUS_RETURN_IF_ERROR(download.ResetScratch());

  ChildProcess child;
  // Redirects of the server may not leave HTTP.
  child.argv = {options.curl,
                "--fail",
                "--location",
                "--silent",
                "--show-error",
                "--retry",
                "3",
                "--proto",
                "=http,https",
                "--output",
                download.partial_path(),
                "--continue-at",
                "-",
                parsed.url};
  child.log_path = download.scratch_dir() + "/log";
  child.keep_running = [&download] {
    std::error_code error;
    const uint64_t bytes = fs::file_size(download.partial_path(), error);
    download.Report(PullProgress::Phase::kDownloading, error ? 0 : bytes, 0);
    return !download.cancelled();
  };
  const Result<int> exit_status = RunToEnd(child);
  if (!exit_status.ok()) {
    switch (exit_status.status().code()) {
      case StatusCode::kCancelled:
        return download.Interrupted();
      case StatusCode::kNotFound:
        return UnavailableError("'" + options.curl +
                                "' isn't installed; it fetches URLs");
      default:
        return exit_status.status();
    }
  }
  std::string log = TailOfFile(child.log_path, 512);
  while (!log.empty() && log.back() == '\n') log.pop_back();
  switch (*exit_status) {
    case 0:
      break;
    case kCurlWriteError:
      return ResourceExhaustedError("could not write " +
                                    download.partial_path() + ": " + log +
                                    "; is the disk full?");
    case kCurlRangeRefused:
      NEXUS_RETURN_IF_ERROR(
          FileSystem::Default().Remove(download.partial_path()));
      return UnavailableError(parsed.url +
                              ": the server can't resume a download; the "
                              "unfinished file was deleted: pull again");
    default:
      return UnavailableError(parsed.url + ": " +
                              (log.empty() ? "curl failed" : log) +
                              "; pull again to resume");
  }
  NEXUS_RETURN_IF_ERROR(download.Install(parsed.sha256));
  return download.final_path();
}

}  // namespace nexus::pull
