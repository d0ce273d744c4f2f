// ToolForecast: which tool a conversation is likely to need next, from which
// tool followed which before.
//
// Counts of pairs, no more: calls come in habitual sequences (look up, then
// write), and a wrong guess costs only idle time.
#ifndef NEXUS_ENGINE_TOOL_FORECAST_H_
#define NEXUS_ENGINE_TOOL_FORECAST_H_

#include <map>
#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::engine {

// Thread-compatible. Tools by tool_id ("server/name").
class ToolForecast {
 public:
  // `tool` was called after `previous` in one conversation.
  void Note(std::string_view previous, std::string_view tool);

  // The tool that followed `previous` most often; the earlier in the alphabet
  // of two. Before anything was seen, `previous` itself: tools are often used
  // in a row.
  std::string Next(std::string_view previous) const;

  Json ToJson() const;
  // kCorruption names `source`.
  static Result<ToolForecast> FromJson(const Json& json,
                                       std::string_view source);

 private:
  // [previous][tool] -> times
  std::map<std::string, std::map<std::string, int>, std::less<>> counts_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_TOOL_FORECAST_H_
