// KeyedLog: a JsonLog whose rows are trials, each known by a key, so that a
// study that was stopped asks what it has already. Of two rows with one key the
// later one counts.
//
// Codec says how a trial is written:
//   static Json ToJson(const Trial&);
//   static Result<Trial> FromJson(const Json&, std::string_view source);
//   static std::string KeyOf(const Trial&);
#ifndef NEXUS_BASE_KEYED_LOG_H_
#define NEXUS_BASE_KEYED_LOG_H_

#include <map>
#include <string>
#include <utility>

#include "nexus/base/json_log.h"

namespace nexus {

// Thread-compatible.
template <typename Trial, typename Codec>
class KeyedLog {
 public:
  // Errors as of JsonLog::Open, and the codec's for a row that isn't a trial.
  static Result<KeyedLog> Open(FileSystem& fs, const std::string& path,
                               const Json& identity, std::string_view study) {
    NEXUS_ASSIGN_OR_RETURN(JsonLog rows,
                           JsonLog::Open(fs, path, identity, study));
    KeyedLog log(std::move(rows));
    for (const JsonLog::Row& row : log.log_.rows()) {
      NEXUS_ASSIGN_OR_RETURN(Trial trial,
                             Codec::FromJson(row.json, row.source));
      log.Insert(std::move(trial));
    }
    return log;
  }

  const std::map<std::string, Trial>& trials() const { return trials_; }
  const Json& identity() const { return log_.identity(); }
  // Null: not measured yet. Valid until the next Append.
  const Trial* Find(const std::string& key) const {
    const auto found = trials_.find(key);
    return found == trials_.end() ? nullptr : &found->second;
  }
  // Kept on the disk before it is among trials().
  Status Append(Trial trial) {
    NEXUS_RETURN_IF_ERROR(log_.Append(Codec::ToJson(trial)));
    Insert(std::move(trial));
    return Status::Ok();
  }

 private:
  explicit KeyedLog(JsonLog log) : log_(std::move(log)) {}
  void Insert(Trial trial) {
    std::string key = Codec::KeyOf(trial);
    trials_.insert_or_assign(std::move(key), std::move(trial));
  }

  JsonLog log_;
  std::map<std::string, Trial> trials_;
};

}  // namespace nexus

#endif  // NEXUS_BASE_KEYED_LOG_H_
