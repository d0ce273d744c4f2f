// Any GGUF file by its URL, fetched by curl as a child process.
//
// Two URLs may end in the same file name, so the URL of what lies on the disk
// is kept beside it: FILE.partial.json while it is incomplete, FILE.source.json
// from then on. Bytes of two URLs are never joined, and a file from one URL is
// never taken for that of another.

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/base/json.h"
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
  if (parsed.sha256.empty() && parsed.url.starts_with("http://")) {
    return InvalidArgumentError(
        "URL '" + parsed.url +
        "': over http anybody on the way can change the file; write https, or "
        "end the URL in #sha256=HEX");
  }
  if (!IsPlainFileName(parsed.file) || !parsed.file.ends_with(".gguf")) {
    return InvalidArgumentError("URL '" + parsed.url +
                                "' does not end in the name of a .gguf file");
  }
  return parsed;
}

// The URL as records and messages have it. Its query may hold a secret, but may
// also choose the file: it becomes a digest.
std::string IdentityOf(const std::string& url) {
  const size_t query = url.find('?');
  if (query == std::string::npos) return url;
  constexpr size_t kDigits = 16;
  return url.substr(0, query + 1) +
         ToHex(Sha256Of(url.substr(query + 1))).substr(0, kDigits);
}

// The URL in a record, "" if there is none that can be read.
std::string RecordedUrl(const std::string& path) {
  const Result<std::string> text = FileSystem::Default().ReadFile(path);
  if (!text.ok()) return {};
  const Result<Json> record = ParseJson(*text, path);
  if (!record.ok() || !record->is_object()) return {};
  const auto url = record->find("url");
  return url != record->end() && url->is_string() ? url->get<std::string>()
                                                  : std::string();
}

Status RecordUrl(const std::string& path, const std::string& url) {
  return WriteFileAtomically(FileSystem::Default(), path,
                             DumpJson({{"url", url}}) + "\n");
}

std::string SourcePath(const Download& download) {
  return download.final_path() + ".source.json";
}

// A checksum says more about a file than where it came from.
Result<bool> AlreadyHere(const Download& download, const ParsedUrl& parsed) {
  if (parsed.sha256.empty() &&
      FileSystem::Default().Exists(download.final_path())) {
    const std::string source = RecordedUrl(SourcePath(download));
    const std::string wanted = IdentityOf(parsed.url);
    if (source != wanted) {
      return InvalidArgumentError(
          download.final_path() + " is there already, from " +
          (source.empty() ? "another source" : source) + ", not from " +
          wanted +
          "; name the file itself if it is the one, add #sha256=HEX to the "
          "URL, or move the file away");
    }
  }
  return download.AlreadyHere(parsed.sha256);
}

// Leaves FILE.partial only if it holds the first bytes of this very URL.
Status PreparePartial(const Download& download, const ParsedUrl& parsed) {
  FileSystem& files = FileSystem::Default();
  const std::string wanted = IdentityOf(parsed.url);
  if (files.Exists(download.partial_path())) {
    if (RecordedUrl(download.state_path()) == wanted) return {};
    NEXUS_RETURN_IF_ERROR(files.Remove(download.partial_path()));
  }
  return RecordUrl(download.state_path(), wanted);
}

// The record moves with the file. First, so that a crash between the two leaves
// no file without one.
Status InstallWithSource(const Download& download, const ParsedUrl& parsed) {
  NEXUS_RETURN_IF_ERROR(
      RecordUrl(SourcePath(download), IdentityOf(parsed.url)));
  Status installed = download.Install(parsed.sha256);
  if (!installed.ok() && !FileSystem::Default().Exists(download.final_path())) {
    // The verdict matters more than an error of the clean-up.
    (void)FileSystem::Default().Remove(SourcePath(download));
  }
  return installed;
}

}  // namespace

Result<std::string> PullUrl(std::string_view url, const PullOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(const ParsedUrl parsed, ParseUrl(url));
  NEXUS_ASSIGN_OR_RETURN(const Download download,
                         Download::Begin(parsed.file, options));
  NEXUS_ASSIGN_OR_RETURN(const bool here, AlreadyHere(download, parsed));
  if (here) return download.final_path();
  NEXUS_RETURN_IF_ERROR(PreparePartial(download, parsed));
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
      NEXUS_RETURN_IF_ERROR(
          FileSystem::Default().Remove(download.state_path()));
      return UnavailableError(parsed.url +
                              ": the server can't resume a download; the "
                              "unfinished file was deleted: pull again");
    default:
      return UnavailableError(parsed.url + ": " +
                              (log.empty() ? "curl failed" : log) +
                              "; pull again to resume");
  }
  NEXUS_RETURN_IF_ERROR(InstallWithSource(download, parsed));
  return download.final_path();
}

}  // namespace nexus::pull
