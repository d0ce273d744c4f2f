#include "nexus/mcp/call_result.h"

#include <utility>

#include "nexus/mcp/json_fields.h"

namespace nexus::mcp {
namespace {

// One part of a tool's answer as text.
std::string PartText(const Json& part) {
  const std::string type = StringOf(part, "type");
  if (type == "text") return StringOf(part, "text");
  if (type == "image" || type == "audio") {
    return "[" + StringOf(part, "mimeType") + ", " +
           std::to_string(StringOf(part, "data").size()) + " bytes of base64]";
  }
  if (type == "resource_link") return "[link " + StringOf(part, "uri") + "]";
  if (type == "resource") {
    const auto resource = part.find("resource");
    if (resource == part.end()) return "[resource]";
    const std::string text = StringOf(*resource, "text");
    return text.empty() ? "[resource " + StringOf(*resource, "uri") + "]"
                        : text;
  }
  return "[" + (type.empty() ? std::string("unknown part") : type) + "]";
}

}  // namespace

Result<CallResult> ReadCallResult(Json raw) {
  if (!raw.is_object()) {
    return CorruptionError(std::string("expected an object, found ") +
                           raw.type_name());
  }
  const std::string kind = StringOf(raw, "resultType");
  if (!kind.empty() && kind != "complete") {
    return UnimplementedError("the tool asks the user for input (resultType '" +
                              kind + "'), which Nexus doesn't offer");
  }
  CallResult result;
  if (const auto error = raw.find("isError");
      error != raw.end() && error->is_boolean()) {
    result.is_error = error->get<bool>();
  }
  if (const auto structured = raw.find("structuredContent");
      structured != raw.end()) {
    result.structured = *structured;
  }
  if (const auto content = raw.find("content"); content != raw.end()) {
    if (!content->is_array()) {
      return CorruptionError(
          std::string("\"content\": expected an array, found ") +
          content->type_name());
    }
    bool first = true;
    for (const Json& part : *content) {
      if (!std::exchange(first, false)) result.text += '\n';
      result.text += PartText(part);
    }
  } else if (!result.structured.is_null()) {
    result.text = DumpJson(result.structured);
  } else {
    return CorruptionError(
        "neither \"content\" nor \"structuredContent\" in the result");
  }
  result.raw = std::move(raw);
  return result;
}

}  // namespace nexus::mcp
