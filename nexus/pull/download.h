// What the two kinds of download (wheels, URL) share: the folder, the lock,
// where the pieces lie, and the last steps (hash, rename, remember).
#ifndef NEXUS_PULL_DOWNLOAD_H_
#define NEXUS_PULL_DOWNLOAD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "nexus/base/result.h"
#include "nexus/base/unique_fd.h"
#include "nexus/pull/pull.h"

namespace nexus::pull {

// One file being brought to its place, FILE in the models folder. Holds
// FILE.lock, so that two processes take turns. Move-only; `options` must
// outlive it. On destruction the scratch folder goes, FILE.partial stays.
class Download {
 public:
  // Makes the folder and waits for the lock. kCancelled if told so meanwhile.
  static Result<Download> Begin(const std::string& file,
                                const PullOptions& options);
  ~Download();
  Download(Download&&) = default;
  Download& operator=(Download&&) = delete;
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  const std::string& dir() const { return dir_; }
  const std::string& final_path() const { return final_path_; }
  std::string partial_path() const { return final_path_ + ".partial"; }
  std::string state_path() const { return final_path_ + ".partial.json"; }
  std::string scratch_dir() const { return final_path_ + ".parts"; }
  const PullOptions& options() const { return *options_; }

  bool cancelled() const;
  Status Interrupted() const;
  void Report(PullProgress::Phase phase, uint64_t done, uint64_t total) const;

  // True if the file is there with this SHA-256 ("" accepts any GGUF). Hashes
  // only when FILE.verified doesn't vouch for this size and modification time.
  Result<bool> AlreadyHere(const std::string& sha256) const;
  // kResourceExhausted if the disk has less than `needed` bytes free.
  Status CheckFreeBytes(uint64_t needed) const;
  // Makes the scratch folder anew, empty.
  Status ResetScratch() const;
  // Gives FILE.partial its final name if it hashes to `sha256` ("": not
  // checked). Otherwise kCorruption, and the bad file is removed.
  Status Install(const std::string& sha256) const;

 private:
  Download(std::string dir, std::string final_path, const PullOptions& options,
           UniqueFd lock);
  Result<std::string> HashOf(const std::string& path) const;
  Status Remember(const std::string& sha256) const;

  std::string dir_;
  std::string final_path_;
  const PullOptions* options_;
  UniqueFd lock_;
};

// "491 MB", for messages.
std::string HumanBytes(uint64_t bytes);

// From a URL; see Pull().
Result<std::string> PullUrl(std::string_view url, const PullOptions& options);

}  // namespace nexus::pull

#endif  // NEXUS_PULL_DOWNLOAD_H_
