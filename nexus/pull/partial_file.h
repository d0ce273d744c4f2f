// FILE.partial: the parts appended so far, and the record that makes it safe to
// append the next one after a crash.
#ifndef NEXUS_PULL_PARTIAL_FILE_H_
#define NEXUS_PULL_PARTIAL_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "nexus/base/result.h"
#include "nexus/base/unique_fd.h"
#include "nexus/pull/model_catalog.h"

namespace nexus::pull {

// The data is fsynced before the record names it, so the record never promises
// more than the file holds; what the file holds beyond it is cut off.
// Move-only, thread-compatible. `spec` must outlive it.
class PartialFile {
 public:
  // Goes on with what the record describes if that is of this very model,
  // else starts empty.
  static Result<PartialFile> Open(const ModelSpec& spec,
                                  const std::string& data_path,
                                  const std::string& record_path);

  size_t parts_done() const { return parts_done_; }
  uint64_t bytes_done() const { return bytes_done_; }

  // Appends a whole file as the next part. kCorruption, with nothing appended,
  // if the model would get longer than it is.
  Status AppendPart(const std::string& part_path);

 private:
  PartialFile(const ModelSpec& spec, std::string data_path,
              std::string record_path);
  // Sets parts_done_ and bytes_done_ from the record if it can be believed.
  void ReadRecord();
  Status WriteRecord(size_t parts, uint64_t bytes) const;

  const ModelSpec* spec_;
  std::string data_path_;
  std::string record_path_;
  UniqueFd fd_;
  size_t parts_done_ = 0;
  uint64_t bytes_done_ = 0;
};

}  // namespace nexus::pull

#endif  // NEXUS_PULL_PARTIAL_FILE_H_
