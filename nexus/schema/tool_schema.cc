#include "nexus/schema/tool_schema.h"

#include <utility>

#include "nexus/schema/canonical_json.h"

namespace nexus::schema {
namespace {

// MCP allows 128 characters; OpenAPI-made names carry whole paths.
constexpr size_t kMaxNameBytes = 256;

Json NoParameters() {
  return Json{{"type", "object"}, {"properties", Json::object()}};
}

std::string Describe(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a string";
  return value.is_array() ? "an array" : "an object";
}

Status WrongType(std::string_view where, std::string_view field,
                 std::string_view expected, const Json& found) {
  return InvalidArgumentError(std::string(where) + ": \"" + std::string(field) +
                              "\" is " + Describe(found) + ", expected " +
                              std::string(expected));
}

// The member, or nullptr where it is absent or null.
const Json* Find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

// The object that holds name, description and parameters.
Result<const Json*> FunctionOf(const Json& value, std::string_view source) {
  if (!value.is_object()) {
    return InvalidArgumentError(std::string(source) + ": a tool is " +
                                Describe(value) + ", expected an object");
  }
  const Json* function = Find(value, "function");
  if (function != nullptr && function->is_object()) return function;
  if (const Json* type = Find(value, "type");
      type != nullptr && *type == "function" && function != nullptr) {
    return WrongType(source, "function", "an object", *function);
  }
  return &value;
}

Result<std::string> NameOf(const Json& function, std::string_view source) {
  const Json* name = Find(function, "name");
  if (name == nullptr) {
    return InvalidArgumentError(std::string(source) +
                                ": a tool without a \"name\"");
  }
  if (!name->is_string()) return WrongType(source, "name", "a string", *name);
  const std::string& text = name->get_ref<const std::string&>();
  if (text.empty() || text.size() > kMaxNameBytes) {
    return InvalidArgumentError(std::string(source) + ": a tool name of " +
                                std::to_string(text.size()) +
                                " bytes, expected 1 to " +
                                std::to_string(kMaxNameBytes));
  }
  for (const char c : text) {
    // A line break would end the tool's line in the prompt and in every log.
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      return InvalidArgumentError(
          std::string(source) +
          ": a tool name with a control character: " + DumpJson(*name));
    }
  }
  return text;
}

bool NamesAnObject(const Json& type) {
  // "dict" is the Python-minded spelling of several tool collections.
  if (type.is_string()) return type == "object" || type == "dict";
  if (!type.is_array()) return false;
  for (const Json& item : type) {
    if (item == "object") return true;
  }
  return false;
}

Status CheckSize(const Json& parameters, std::string_view where) {
  if (const int levels = LevelCount(parameters); levels > kMaxSchemaLevels) {
    return InvalidArgumentError(
        std::string(where) + ": a schema of " + std::to_string(levels) +
        " levels, the limit is " + std::to_string(kMaxSchemaLevels));
  }
  if (const size_t bytes = DumpJson(parameters).size();
      bytes >= kMaxSchemaBytes) {
    return InvalidArgumentError(
        std::string(where) + ": a schema of " + std::to_string(bytes) +
        " bytes, the limit is " + std::to_string(kMaxSchemaBytes) +
        "; shorten its descriptions or enums");
  }
  return Status::Ok();
}

Result<Json> ParametersOf(const Json& function, std::string_view where) {
  const char* key =
      function.contains("inputSchema") ? "inputSchema" : "parameters";
  const Json* found = Find(function, key);
  if (found == nullptr) return NoParameters();
  if (!found->is_object()) {
    return WrongType(where, key, "a JSON Schema object", *found);
  }
  NEXUS_RETURN_IF_ERROR(CheckSize(*found, where));
  Json parameters = *found;
  if (const Json* type = Find(parameters, "type");
      type != nullptr && !NamesAnObject(*type)) {
    return InvalidArgumentError(std::string(where) + ": \"" + key +
                                "\" has the type " + DumpJson(*type) +
                                ", expected \"object\"");
  }
  for (const char* optional : {"type", "properties", "required"}) {
    const auto it = parameters.find(optional);
    if (it != parameters.end() && it->is_null()) parameters.erase(it);
  }
  if (parameters.empty() ||
      (parameters.size() == 1 && parameters.contains("type"))) {
    return NoParameters();
  }
  if (const Json* properties = Find(parameters, "properties");
      properties != nullptr && !properties->is_object()) {
    return WrongType(where, "properties", "an object", *properties);
  }
  if (const Json* required = Find(parameters, "required");
      required != nullptr && !required->is_array()) {
    return WrongType(where, "required", "an array of names", *required);
  }
  return parameters;
}

std::optional<bool> Hint(const Json& annotations, const char* key) {
  const Json* hint = Find(annotations, key);
  if (hint == nullptr || !hint->is_boolean()) return std::nullopt;
  return hint->get<bool>();
}

Json FunctionObject(const ToolSchema& tool) {
  return Json{{"name", tool.name},
              {"description", tool.description},
              {"parameters", tool.parameters}};
}

void AppendWords(std::string_view text, std::string* out) {
  if (text.empty()) return;
  if (!out->empty()) out->push_back(' ');
  out->append(text);
}

}  // namespace

Result<ToolSchema> ParseTool(const Json& value, std::string_view server,
                             std::string_view source) {
  NEXUS_ASSIGN_OR_RETURN(const Json* function, FunctionOf(value, source));
  ToolSchema tool;
  tool.server = server;
  NEXUS_ASSIGN_OR_RETURN(tool.name, NameOf(*function, source));
  const std::string where = std::string(source) + ": tool '" + tool.name + "'";
  if (const Json* description = Find(*function, "description")) {
    if (!description->is_string()) {
      return WrongType(where, "description", "a string", *description);
    }
    tool.description = description->get<std::string>();
  }
  NEXUS_ASSIGN_OR_RETURN(tool.parameters, ParametersOf(*function, where));
  if (const Json* annotations = Find(value, "annotations");
      annotations != nullptr && annotations->is_object()) {
    tool.annotations.read_only = Hint(*annotations, "readOnlyHint");
    tool.annotations.destructive = Hint(*annotations, "destructiveHint");
  }
  return tool;
}

std::string ToolId(const ToolSchema& tool) {
  return tool.server.empty() ? tool.name : tool.server + "/" + tool.name;
}

std::string CanonicalText(const ToolSchema& tool) {
  return SortedCompactText(FunctionObject(tool));
}

Sha256Digest SchemaHash(const ToolSchema& tool) {
  return Sha256Of(CanonicalText(tool));
}

std::string ModelText(const ToolSchema& tool) {
  return SpacedText(
      Json{{"type", "function"}, {"function", FunctionObject(tool)}});
}

std::string SearchText(const ToolSchema& tool) {
  std::string text = tool.name;
  AppendWords(tool.description, &text);
  const Json* properties = Find(tool.parameters, "properties");
  if (properties == nullptr || !properties->is_object()) return text;
  for (const auto& [name, schema] : properties->items()) {
    AppendWords(name, &text);
    if (!schema.is_object()) continue;
    const Json* description = Find(schema, "description");
    if (description != nullptr && description->is_string()) {
      AppendWords(description->get_ref<const std::string&>(), &text);
    }
  }
  return text;
}

}  // namespace nexus::schema
