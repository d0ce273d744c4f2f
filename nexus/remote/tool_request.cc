#include "nexus/remote/tool_request.h"

#include <algorithm>
#include <utility>

#include "nexus/schema/argument_validator.h"
#include "nexus/schema/ir_signature.h"

namespace nexus::remote {
namespace {

// Types, enums, required and property names.
constexpr int kShortLevel = 2;

const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json::array_t& Messages(const Json& body) {
  static const Json::array_t kNone;
  const Json* found = Find(body, "messages");
  return found != nullptr && found->is_array()
             ? found->get_ref<const Json::array_t&>()
             : kNone;
}

bool IsOfRole(const Json& message, const char* role) {
  const Json* found = Find(message, "role");
  return found != nullptr && *found == role;
}

// A string, or the text parts of a list.
std::string TextOf(const Json& message) {
  const Json* content = Find(message, "content");
  if (content == nullptr) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (!content->is_array()) return text;
  for (const Json& part : *content) {
    const Json* piece = Find(part, "text");
    if (piece == nullptr || !piece->is_string()) continue;
    if (!text.empty()) text += ' ';
    text += piece->get<std::string>();
  }
  return text;
}

}  // namespace

Json OutgoingTool(const Json& entry, const schema::ToolSchema& tool,
                  SchemaForm form) {
  if (form == SchemaForm::kFull) return entry;
  // `strict` is a promise about the schema that was there.
  return {{"type", "function"},
          {"function",
           {{"name", tool.name},
            {"description", schema::IrSignature(tool)},
            {"parameters",
             schema::RelaxForGrammar(tool.parameters, kShortLevel).schema}}}};
}

Json OutgoingRequest(const Json& body, const std::string& model) {
  Json request = body;
  request.erase("nexus");
  if (!model.empty()) request["model"] = model;
  return request;
}

Json OutgoingRequest(const Json& body,
                     std::span<const schema::ToolSchema> tools,
                     const ToolPick& pick, SchemaForm form,
                     const std::string& model) {
  Json request = OutgoingRequest(body, model);
  if (pick.tools.empty()) {
    // Servers refuse the others without `tools`.
    for (const char* key : {"tools", "tool_choice", "parallel_tool_calls"}) {
      request.erase(key);
    }
    return request;
  }
  Json list = Json::array();
  for (const size_t i : pick.tools) {
    list.push_back(OutgoingTool(body["tools"][i], tools[i], form));
  }
  request["tools"] = std::move(list);
  // Not the function by its name: it is the only one there, and more servers
  // understand this.
  if (pick.must_call) request["tool_choice"] = "required";
  return request;
}

std::string LastUserText(const Json& body) {
  const auto& messages = Messages(body);
  for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
    if (IsOfRole(*it, "user")) return TextOf(*it);
  }
  return {};
}

bool EndsWithUser(const Json& body) {
  const auto& messages = Messages(body);
  return !messages.empty() && IsOfRole(messages.back(), "user");
}

std::vector<std::string> CalledTools(const Json& body) {
  std::vector<std::string> names;
  for (const Json& message : Messages(body)) {
    const Json* calls = Find(message, "tool_calls");
    if (calls == nullptr || !calls->is_array()) continue;
    for (const Json& call : *calls) {
      const Json* function = Find(call, "function");
      const Json* name =
          function == nullptr ? nullptr : Find(*function, "name");
      if (name == nullptr || !name->is_string()) continue;
      auto text = name->get<std::string>();
      if (std::find(names.begin(), names.end(), text) == names.end()) {
        names.push_back(std::move(text));
      }
    }
  }
  return names;
}

}  // namespace nexus::remote
