#include "nexus/base/json_log.h"

#include <utility>

#include "nexus/base/lines.h"

namespace nexus {
namespace {

// A value of an error message: settings are short, lists of arms aren't.
std::string Shown(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = DumpJson(value);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// Without a last line that was cut off. The first one is never that: a file of
// one odd line is no log.
std::string WithoutTornLine(std::string text) {
  const size_t end = text.rfind('\n');
  if (end == std::string::npos || end + 1 == text.size()) return text;
  if (!ParseJson(std::string_view(text).substr(end + 1), "").ok()) {
    text.resize(end + 1);
  }
  return text;
}

Status CheckIdentity(const std::string& path, const Json& found,
                     const Json& wanted, std::string_view study) {
  for (const auto& [field, value] : wanted.items()) {
    if (found.is_object() && found.contains(field) && found[field] == value) {
      continue;
    }
    const std::string there = found.is_object() && found.contains(field)
                                  ? Shown(found[field])
                                  : "missing";
    return IncompatibleError(path + ": holds trials of another " +
                             std::string(study) + " ('" + field + "' is " +
                             there + " there and " + Shown(value) +
                             " here); give another file, or delete this one");
  }
  return Status::Ok();
}

}  // namespace

Result<JsonLog> JsonLog::Open(FileSystem& fs, const std::string& path,
                              const Json& identity, std::string_view study) {
  JsonLog log(&fs, path);
  log.identity_ = identity;
  if (path.empty()) return log;
  if (fs.Exists(path)) {
    NEXUS_ASSIGN_OR_RETURN(std::string text, fs.ReadFile(path));
    log.text_ = WithoutTornLine(std::move(text));
  }
  NEXUS_RETURN_IF_ERROR(ForEachLine(
      log.text_, [&](std::string_view line, size_t number) -> Status {
        Row row;
        row.source = path + ":" + std::to_string(number);
        NEXUS_ASSIGN_OR_RETURN(row.json, ParseJson(line, row.source));
        if (number == 1) {
          log.identity_ = row.json;
          return CheckIdentity(path, row.json, identity, study);
        }
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
