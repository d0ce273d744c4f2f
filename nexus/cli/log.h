// The program's own log on standard error: what it did and what went wrong, for
// people as text, for a log collector as one JSON object a line. Results go to
// standard output and have nothing to do with it.
#ifndef NEXUS_CLI_LOG_H_
#define NEXUS_CLI_LOG_H_

#include <optional>
#include <string>
#include <string_view>

#include "nexus/base/json.h"

namespace nexus::cli {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

std::string_view LogLevelName(LogLevel level);  // "error", "warn", ...
std::optional<LogLevel> ParseLogLevel(std::string_view name);

struct LogOptions {
  LogLevel level = LogLevel::kInfo;  // the least important that is shown
  bool json = false;
};

// Before other threads log.
void ConfigureLog(const LogOptions& options);
bool LogIsJson();

// Thread-safe: a line is written in one piece. As text, "nexus: MESSAGE"; as
// JSON, {"time", "level", "message"} and then `fields`, which text leaves out.
void Log(LogLevel level, std::string_view message,
         const Json& fields = Json::object());
// What Log writes, line end included. `time` is RFC 3339 in UTC.
std::string FormatLogLine(bool json, LogLevel level, std::string_view message,
                          const Json& fields, std::string_view time);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_LOG_H_
