#include "nexus/serve/logprobs_json.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace nexus::serve {
namespace {

constexpr double kNever = -9999.0;

Json EntryJson(const llm::TokenLogprob& entry, std::string text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  return {{"token", std::move(text)},
          {"logprob", std::max(entry.logprob, kNever)},
          {"bytes", std::move(bytes)}};
}

}  // namespace

Json LogprobsJson(std::span<const llm::LogprobRow> rows,
                  const std::function<std::string(llm::Token)>& text_of) {
  Json json = Json::array();
  for (const llm::LogprobRow& row : rows) {
    Json entry = EntryJson(row.sampled, text_of(row.sampled.token));
    entry["top_logprobs"] = Json::array();
    for (const llm::TokenLogprob& each : row.top) {
      entry["top_logprobs"].push_back(EntryJson(each, text_of(each.token)));
    }
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace nexus::serve
