#include "nexus/eval/tool_effect.h"

#include <string>
#include <unordered_map>

#include "nexus/route/bm25.h"

namespace nexus::eval {
namespace {

ToolEffect EffectOfVerb(const std::string& word) {
  static const auto* const kVerbs = [] {
    auto* verbs = new std::unordered_map<std::string, ToolEffect>;
    for (const char* verb :
         {"get",       "list",    "read",    "search",  "find",
          "fetch",     "query",   "show",    "view",    "lookup",
          "describe",  "check",   "count",   "browse",  "retrieve",
          "calculate", "compute", "convert", "compare", "analyze"}) {
      verbs->emplace(verb, ToolEffect::kReads);
    }
    for (const char* verb :
         {"create",   "add",    "delete",  "remove",  "update", "set",
          "write",    "edit",   "send",    "post",    "put",    "insert",
          "move",     "rename", "replace", "modify",  "push",   "merge",
          "publish",  "upload", "cancel",  "book",    "buy",    "pay",
          "transfer", "drop",   "patch",   "clear",   "reset",  "execute",
          "submit",   "close",  "kill",    "restart", "stop",   "order"}) {
      verbs->emplace(verb, ToolEffect::kWrites);
    }
    return verbs;
  }();
  const auto it = kVerbs->find(word);
  return it == kVerbs->end() ? ToolEffect::kUnknown : it->second;
}

}  // namespace

ToolEffect EffectOf(const schema::ToolSchema& tool) {
  if (tool.annotations.read_only.has_value()) {
    return *tool.annotations.read_only ? ToolEffect::kReads
                                       : ToolEffect::kWrites;
  }
  if (tool.annotations.destructive.value_or(false)) return ToolEffect::kWrites;
  for (const std::string& word : route::SplitWords(tool.name)) {
    const ToolEffect effect = EffectOfVerb(word);
    if (effect != ToolEffect::kUnknown) return effect;
  }
  return ToolEffect::kUnknown;
}

}  // namespace nexus::eval
