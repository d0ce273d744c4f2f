#include "nexus/base/json_log.h"

#include <utility>

#include "nexus/base/lines.h"

namespace nexus {
namespace {

Status CheckIdentity(const std::string& path, const Json& found,
                     const Json& wanted, std::string_view study) {
  for (const auto& [field, value] : wanted.items()) {
    if (found.is_object() && found.contains(field) && found[field] == value) {
      continue;
    }
    return IncompatibleError(
        path + ": holds trials of another " + std::string(study) + " ('" +
        field + "' differs); give another file, or delete this one");
  }
  return Status::Ok();
}

}  // namespace

Result<JsonLog> JsonLog::Open(FileSystem& fs, const std::string& path,
                              const Json& identity, std::string_view study) {
  JsonLog log(&fs, path);
  if (path.empty()) return log;
  if (fs.Exists(path)) {
    NEXUS_ASSIGN_OR_RETURN(log.text_, fs.ReadFile(path));
  }
  NEXUS_RETURN_IF_ERROR(ForEachLine(
      log.text_, [&](std::string_view line, size_t number) -> Status {
        Row row;
        row.source = path + ":" + std::to_string(number);
        NEXUS_ASSIGN_OR_RETURN(row.json, ParseJson(line, row.source));
        if (number == 1) return CheckIdentity(path, row.json, identity, study);
        log.rows_.push_back(std::move(row));
        return Status::Ok();
      }));
  if (log.text_.empty()) log.text_ = DumpJson(identity) + "\n";
  if (!log.text_.ends_with('\n')) log.text_ += '\n';
  return log;
}

Status JsonLog::Append(Json row) {
  if (!path_.empty()) {
    std::string longer = text_ + DumpJson(row) + "\n";
    NEXUS_RETURN_IF_ERROR(WriteFileAtomically(*fs_, path_, longer));
    text_ = std::move(longer);
  }
  rows_.push_back({.json = std::move(row), .source = path_});
  return Status::Ok();
}

}  // namespace nexus
