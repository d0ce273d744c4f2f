// JsonLog: the rows of a long measurement on disk, one JSON value a line, so
// that hours of it survive a Ctrl-C.
//
// The first line says what was measured: model, settings, texts. A log of
// anything else is refused, never mixed in. The file is replaced as a whole
// with each row (a row takes seconds to measure, the file is a few MB), so it
// is never seen half-written. One that was copied while it was written, or by a
// full disk, may end within a row: that row is left out and measured again.
#ifndef NEXUS_BASE_JSON_LOG_H_
#define NEXUS_BASE_JSON_LOG_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus {

// Thread-compatible. The file system must outlive it.
class JsonLog {
 public:
  struct Row {
    Json json;
    std::string source;  // "path:line", for errors about what it holds
  };

  // Reads what is there. An empty path keeps rows in memory only. `study` names
  // in the error what the file holds another one of. kIncompatible: another
  // identity, with the first field that differs and both values; fields that
  // `identity` hasn't may have any. kInvalidArgument: path and line that isn't
  // JSON.
  static Result<JsonLog> Open(FileSystem& fs, const std::string& path,
                              const Json& identity, std::string_view study);

  const std::vector<Row>& rows() const { return rows_; }
  // The first line, with all that it has; what was asked for in a new log.
  const Json& identity() const { return identity_; }
  // Kept on the disk before it is among rows().
  Status Append(Json row);

 private:
  JsonLog(FileSystem* fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  FileSystem* fs_;
  std::string path_;
  std::string text_;  // the file, as it is on disk
  Json identity_;
  std::vector<Row> rows_;
};

}  // namespace nexus

#endif  // NEXUS_BASE_JSON_LOG_H_
