#include "nexus/serve/responses_tools.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "nexus/serve/request_fields.h"

namespace nexus::serve {
namespace {

// A type that isn't here is more likely a slip than a tool.
constexpr std::string_view kLeftOut[] = {
    "apply_patch",
    "code_interpreter",
    "computer",
    "computer_use_preview",
    "custom",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "shell",
    "tool_search",
    "web_search",
};

bool IsLeftOut(std::string_view type) {
  // web_search_preview_2025_03_11: dated names of one tool.
  constexpr std::string_view kDated = "web_search_preview";
  return type.starts_with(kDated) ||
         std::find(std::begin(kLeftOut), std::end(kLeftOut), type) !=
             std::end(kLeftOut);
}

class ToolsReader {
 public:
  ToolsReader(FieldReader* read, ChatRequest* request)
      : read_(read), request_(request) {}

  void AddAll(const Json& object, const std::string& path,
              const std::string& space) {
    const Json* tools = read_->FindArray(object, path, "tools", kMaxTools);
    const std::string list = FieldPath(path, "tools");
    for (size_t i = 0; tools != nullptr && i < tools->size() && read_->ok();
         ++i) {
      Add((*tools)[i], ItemPath(list, i), space);
    }
  }

 private:
  void Add(const Json& tool, const std::string& path,
           const std::string& space) {
    if (!tool.is_object()) {
      read_->Fail(path, "expected an object");
      return;
    }
    std::string type = "function";
    read_->Read(tool, path, "type", &type);
    if (type == "function") {
      AddFunction(tool, path, space);
    } else if (type == "namespace" && space.empty()) {
      std::string name;
      read_->Read(tool, path, "name", &name);
      if (name.empty()) read_->Fail(FieldPath(path, "name"), "is missing");
      AddAll(tool, path, name);
    } else if (IsLeftOut(type)) {
      request_->left_out_tools.push_back(type);
    } else {
      read_->Fail(FieldPath(path, "type"),
                  "expected function or namespace, or a tool of OpenAI's that "
                  "is left out here, found '" +
                      type + "'");
    }
  }

  void AddFunction(const Json& tool, const std::string& path,
                   const std::string& space) {
    if (request_->tools.size() >= kMaxTools) {
      read_->Fail(path, "is one tool too many: at most " +
                            std::to_string(kMaxTools) + " are taken");
      return;
    }
    ReadTool(tool, path, read_, &request_->tools);
    if (!read_->ok() || space.empty()) return;
    std::string& name = request_->tools.back().name;
    NamespacedTool known = {space, name};
    name = NameInNamespace(space, name);
    request_->namespaced.emplace(name, std::move(known));
  }

  FieldReader* const read_;
  ChatRequest* const request_;
};

// {"type": "function", "name", "namespace"}. Null: none of the tools, and said
// so at `field`.
const schema::ToolSchema* ReadChosen(const Json& choice,
                                     const std::string& path,
                                     const std::string& field,
                                     FieldReader* read,
                                     const ChatRequest& request) {
  std::string name;
  std::string space;
  if (choice.is_object()) {
    read->Read(choice, path, "name", &name);
    read->Read(choice, path, "namespace", &space);
  }
  const schema::ToolSchema* tool =
      FindTool(request, NameInNamespace(space, name));
  if (tool == nullptr) {
    read->Fail(field, "'" + name + "' is none of `tools`");
  }
  return tool;
}

// {"type": "allowed_tools", "mode", "tools": [{"type": "function", "name"}]}
void ReadAllowedTools(const Json& choice, FieldReader* read,
                      ChatRequest* request) {
  const std::string path = "tool_choice.tools";
  std::vector<schema::ToolSchema> allowed;
  const Json* tools =
      read->FindArray(choice, "tool_choice", "tools", kMaxTools);
  if (tools == nullptr) read->Fail(path, "is missing");
  for (size_t i = 0; tools != nullptr && i < tools->size() && read->ok(); ++i) {
    const std::string item = ItemPath(path, i);
    const schema::ToolSchema* tool =
        ReadChosen((*tools)[i], item, item, read, *request);
    if (tool != nullptr) allowed.push_back(*tool);
  }
  request->tools = std::move(allowed);
  if (const Json* mode = read->Find(choice, "mode")) {
    ReadToolChoiceName(*mode, "tool_choice.mode", read, request);
  }
}

void ReadChoice(const Json& choice, FieldReader* read, ChatRequest* request) {
  if (!choice.is_object()) {
    ReadToolChoiceName(choice, "tool_choice", read, request);
    return;
  }
  std::string type;
  read->Read(choice, "tool_choice", "type", &type);
  if (type == "allowed_tools") {
    ReadAllowedTools(choice, read, request);
  } else if (type == "function") {
    const schema::ToolSchema* tool =
        ReadChosen(choice, "tool_choice", "tool_choice.name", read, *request);
    if (tool == nullptr) return;
    request->named_tool = tool->name;
    request->tool_choice = ToolChoice::kNamed;
  } else {
    read->Fail("tool_choice.type",
               "expected function or allowed_tools, found '" + type + "'");
  }
}

}  // namespace

std::string NameInNamespace(std::string_view space, std::string_view name) {
  if (space.empty()) return std::string(name);
  std::string joined(space);
  // Some clients end a namespace as it is joined.
  if (!space.ends_with("__")) joined += "__";
  return joined += name;
}

void ReadResponsesTools(const Json& body, FieldReader* read,
                        ChatRequest* request) {
  ToolsReader(read, request).AddAll(body, "", "");
  const Json* choice = read->Find(body, "tool_choice");
  if (choice != nullptr && read->ok()) ReadChoice(*choice, read, request);
}

}  // namespace nexus::serve
