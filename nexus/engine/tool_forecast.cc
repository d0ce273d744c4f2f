#include "nexus/engine/tool_forecast.h"

#include <cstdint>

namespace nexus::engine {

void ToolForecast::Note(std::string_view previous, std::string_view tool) {
  ++counts_[std::string(previous)][std::string(tool)];
}

std::string ToolForecast::Next(std::string_view previous) const {
  const auto found = counts_.find(previous);
  std::string best(previous);
  if (found == counts_.end()) return best;
  int most = 0;
  for (const auto& [tool, times] : found->second) {
    if (times <= most) continue;
    most = times;
    best = tool;
  }
  return best;
}

Json ToolForecast::ToJson() const {
  Json json = Json::object();
  for (const auto& [previous, followers] : counts_) {
    json[previous] = followers;
  }
  return json;
}

Result<ToolForecast> ToolForecast::FromJson(const Json& json,
                                            std::string_view source) {
  const Status damaged = CorruptionError(
      std::string(source) +
      ": expected an object of objects of counts, {tool: {next: times}}");
  if (!json.is_object()) return damaged;
  ToolForecast forecast;
  for (const auto& [previous, followers] : json.items()) {
    if (!followers.is_object()) return damaged;
    for (const auto& [tool, times] : followers.items()) {
      if (!times.is_number_integer() || times.get<int64_t>() < 0 ||
          times.get<int64_t>() > 1 << 30) {
        return damaged;
      }
      forecast.counts_[previous][tool] = times.get<int>();
    }
  }
  return forecast;
}

}  // namespace nexus::engine
