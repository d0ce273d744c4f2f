#include "nexus/remote/answer_parts.h"

#include <utility>

namespace nexus::remote {
namespace {

// More in one answer is nonsense, and bounds the map.
constexpr size_t kMaxCalls = 256;

const Json* Field(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The first choice's "delta" or "message".
const Json* FirstChoice(const Json& body, const char* part) {
  const Json* choices = Field(body, "choices");
  if (choices == nullptr || !choices->is_array()) return nullptr;
  for (const Json& choice : *choices) {
    const Json* index = Field(choice, "index");
    if (index != nullptr && *index != 0) continue;
    return Field(choice, part);
  }
  return nullptr;
}

void AppendText(const Json& object, const char* key, std::string* text) {
  const Json* found = Field(object, key);
  if (found != nullptr && found->is_string())
    *text += found->get<std::string>();
}

}  // namespace

void AnswerParts::AddChunk(const Json& chunk) {
  const Json* delta = FirstChoice(chunk, "delta");
  if (delta == nullptr) return;
  AppendText(*delta, "content", &content_);
  const Json* fragments = Field(*delta, "tool_calls");
  if (fragments == nullptr || !fragments->is_array()) return;
  for (const Json& fragment : *fragments) {
    const Json* place = Field(fragment, "index");
    const int64_t index = place != nullptr && place->is_number_integer()
                              ? place->get<int64_t>()
                              : 0;
    if (!calls_.contains(index) && calls_.size() >= kMaxCalls) continue;
    RemoteCall& call = calls_[index];
    if (const Json* id = Field(fragment, "id");
        id != nullptr && id->is_string() && call.id.empty()) {
      call.id = id->get<std::string>();
    }
    const Json* function = Field(fragment, "function");
    if (function == nullptr) continue;
    // Some servers send the name again with each piece.
    if (call.name.empty()) AppendText(*function, "name", &call.name);
    AppendText(*function, "arguments", &call.arguments);
  }
}

AnswerParts AnswerParts::OfWhole(const Json& completion) {
  AnswerParts parts;
  const Json* message = FirstChoice(completion, "message");
  if (message == nullptr) return parts;
  AppendText(*message, "content", &parts.content_);
  const Json* calls = Field(*message, "tool_calls");
  if (calls == nullptr || !calls->is_array()) return parts;
  int64_t index = 0;
  for (const Json& item : *calls) {
    if (parts.calls_.size() >= kMaxCalls) break;
    RemoteCall& call = parts.calls_[index++];
    AppendText(item, "id", &call.id);
    if (const Json* function = Field(item, "function")) {
      AppendText(*function, "name", &call.name);
      AppendText(*function, "arguments", &call.arguments);
      // Against the standard, but seen: the object itself.
      const Json* arguments = Field(*function, "arguments");
      if (arguments != nullptr && arguments->is_object()) {
        call.arguments = DumpJson(*arguments);
      }
    }
  }
  return parts;
}

std::vector<RemoteCall> AnswerParts::calls() const {
  std::vector<RemoteCall> calls;
  for (const auto& [index, call] : calls_) calls.push_back(call);
  return calls;
}

bool HasCallFragment(const Json& chunk) {
  const Json* choices = Field(chunk, "choices");
  if (choices == nullptr || !choices->is_array()) return false;
  for (const Json& choice : *choices) {
    const Json* delta = Field(choice, "delta");
    if (delta == nullptr) continue;
    const Json* calls = Field(*delta, "tool_calls");
    if (calls != nullptr && calls->is_array() && !calls->empty()) return true;
  }
  return false;
}

}  // namespace nexus::remote
