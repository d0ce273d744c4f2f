// Registry files: JSON lines, a JSON array, or an MCP tools/list result. Which
// one it is shows in the first line: a file whose first line is a whole JSON
// object is JSON lines, unless that object is itself a list.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/lines.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::schema {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlank = " \t\r\n";

// A tool's own limits are ParseTool's; these leave room for the wrapping.
constexpr JsonLimits kToolLimits = {.max_bytes = kMaxSchemaBytes + (1 << 20),
                                    .max_depth = kMaxSchemaLevels + 9};
constexpr JsonLimits kListLimits = {.max_bytes = size_t{256} << 20,
                                    .max_depth = kMaxSchemaLevels + 9};

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// {"tools": [...]}, or the JSON-RPC answer around it.
const Json* ToolListIn(const Json& value) {
  if (value.is_array()) return &value;
  if (!value.is_object()) return nullptr;
  if (const auto tools = value.find("tools"); tools != value.end()) {
    return tools->is_array() ? &*tools : nullptr;
  }
  const auto result = value.find("result");
  if (result == value.end() || !result->is_object()) return nullptr;
  const auto tools = result->find("tools");
  return tools != result->end() && tools->is_array() ? &*tools : nullptr;
}

// Collects tools; a bad entry ends the reading unless somebody wants the list.
class Collector {
 public:
  explicit Collector(std::vector<std::string>* skipped) : skipped_(skipped) {}

  Status Add(const Json& value, const std::string& source) {
    std::string server;
    if (value.is_object()) {
      const auto it = value.find("server");
      if (it != value.end() && it->is_string()) server = it->get<std::string>();
    }
    auto tool = ParseTool(value, server, source);
    if (!tool.ok()) return Skip(tool.status());
    if (skipped_ != nullptr) {
      const auto [first, is_new] =
          sources_.try_emplace({tool->server, tool->name}, source);
      if (!is_new) {
        skipped_->push_back(source + ": a second tool '" + ToolId(*tool) +
                            "', the first is at " + first->second);
        return Status::Ok();
      }
    }
    tools_.push_back(std::move(tool).value());
    return Status::Ok();
  }

  Status Skip(Status status) {
    if (skipped_ == nullptr) return status;
    skipped_->push_back(status.message());
    return Status::Ok();
  }

  std::vector<ToolSchema> Take() { return std::move(tools_); }

 private:
  std::vector<std::string>* skipped_;
  std::vector<ToolSchema> tools_;
  // Where each (server, name) stands.
  std::map<std::pair<std::string, std::string>, std::string> sources_;
};

Status AddList(const Json& list, const std::string& path,
               Collector* collector) {
  size_t number = 0;
  for (const Json& value : list) {
    ++number;
    NEXUS_RETURN_IF_ERROR(
        collector->Add(value, path + ": entry " + std::to_string(number)));
  }
  return Status::Ok();
}

Status AddLines(std::string_view text, const std::string& path,
                Collector* collector) {
  return ForEachLine(text, [&](std::string_view raw, size_t number) {
    const std::string_view line = Trim(raw);
    if (line.empty()) return Status::Ok();
    const std::string source = path + ":" + std::to_string(number);
    auto value = ParseJson(line, source, kToolLimits);
    if (!value.ok()) return collector->Skip(value.status());
    return collector->Add(*value, source);
  });
}

// The whole text as one JSON value, where it is a list or a single tool printed
// over several lines. Nothing: read it as lines.
std::optional<Result<Json>> AsOneValue(std::string_view text,
                                       const std::string& path) {
  const std::string_view trimmed = Trim(text);
  if (trimmed.starts_with('[')) return ParseJson(trimmed, path, kListLimits);
  const std::string_view first_line =
      Trim(trimmed.substr(0, trimmed.find('\n')));
  const auto first = ParseJson(first_line, path, kListLimits);
  if (first.ok() && ToolListIn(*first) == nullptr) return std::nullopt;
  auto whole = ParseJson(trimmed, path, kListLimits);
  // A lone brace begins a value printed over several lines, not a line of its
  // own.
  if (!whole.ok() && first_line != "{") return std::nullopt;
  return whole;
}

}  // namespace

Result<std::vector<ToolSchema>> ReadRegistryFile(
    const std::string& path, std::vector<std::string>* skipped) {
  NEXUS_ASSIGN_OR_RETURN(const std::string bytes,
                         FileSystem::Default().ReadFile(path));
  std::string_view text = bytes;
  if (text.starts_with(kByteOrderMark)) {
    text.remove_prefix(kByteOrderMark.size());
  }
  Collector collector(skipped);
  if (auto one = AsOneValue(text, path); one.has_value()) {
    if (!one->ok()) return one->status();
    const Json& value = one->value();
    const Json* list = ToolListIn(value);
    NEXUS_RETURN_IF_ERROR(list != nullptr ? AddList(*list, path, &collector)
                                          : collector.Add(value, path));
  } else {
    NEXUS_RETURN_IF_ERROR(AddLines(text, path, &collector));
  }
  return collector.Take();
}

}  // namespace nexus::schema
