#include "nexus/cli/log.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "nexus/cli/terminal.h"

namespace nexus::cli {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"error", "warn", "info",
                                                    "debug"};
LogOptions current;

std::string UtcTime() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%03dZ", date,
                static_cast<int>(ms % 1000));
  return text;
}

// Several lines where a server's last words are quoted, but nothing that drives
// the terminal.
std::string Safe(std::string_view message) {
  std::string safe;
  while (true) {
    const size_t end = message.find('\n');
    safe += OneLine(message.substr(0, end));
    if (end == std::string_view::npos) return safe;
    safe += '\n';
    message.remove_prefix(end + 1);
  }
}

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  return kNames[static_cast<size_t>(level)];
}

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void ConfigureLog(const LogOptions& options) { current = options; }
bool LogIsJson() { return current.json; }

std::string FormatLogLine(bool json, LogLevel level, std::string_view message,
                          const Json& fields, std::string_view time) {
  if (!json) return "nexus: " + Safe(message) + "\n";
  Json line = {
      {"time", time}, {"level", LogLevelName(level)}, {"message", message}};
  line.update(fields);
  return DumpJson(line) + "\n";
}

void Log(LogLevel level, std::string_view message, const Json& fields) {
  if (level > current.level) return;
  const std::string line =
      FormatLogLine(current.json, level, message, fields, UtcTime());
  // One call: stdio locks the stream for it.
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace nexus::cli
