#include "nexus/engine/compose_queries.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "nexus/base/file_system.h"
#include "nexus/engine/list_order.h"
#include "nexus/eval/draws.h"

namespace nexus::engine {
namespace {

Status BadField(const std::string& source, std::string_view field,
                std::string_view expected) {
  return InvalidArgumentError(source + ": field '" + std::string(field) +
                              "': expected " + std::string(expected));
}

Result<ComposeQuery> ParseQuery(const Json& value, const std::string& source) {
  if (!value.is_object()) {
    return InvalidArgumentError(source + ": expected an object, found " +
                                value.type_name());
  }
  ComposeQuery query;
  const auto text = value.find("query");
  if (text == value.end() || !text->is_string() ||
      text->get_ref<const std::string&>().empty()) {
    return BadField(source, "query", "a text that isn't empty");
  }
  query.query = text->get<std::string>();
  const auto gold = value.find("gold");
  if (gold == value.end() || !gold->is_array() || gold->empty()) {
    return BadField(source, "gold", "an array of tool names");
  }
  for (const Json& name : *gold) {
    if (!name.is_string()) {
      return BadField(source, "gold", "an array of tool names");
    }
    query.gold.push_back(name.get<std::string>());
  }
  const auto args = value.find("args");
  if (args == value.end() || args->is_null()) return query;
  if (!args->is_object()) {
    return BadField(source, "args", "an object of arrays");
  }
  for (const Json& accepted : *args) {
    if (!accepted.is_array()) {
      return BadField(source, "args", "an object of arrays");
    }
  }
  query.accepted_args = *args;
  return query;
}

std::string Plain(std::string_view text) {
  constexpr std::string_view kIgnored = " ,./-_*^'\"";
  std::string plain;
  for (const char c : text) {
    if (kIgnored.find(c) != std::string_view::npos) continue;
    plain.push_back(
        static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return plain;
}

bool SameValue(const Json& a, const Json& b) {
  if (a.is_string() && b.is_string()) {
    return Plain(a.get_ref<const std::string&>()) ==
           Plain(b.get_ref<const std::string&>());
  }
  if (a.is_number() && b.is_number()) {
    return a.get<double>() == b.get<double>();
  }
  if (a.is_array() && b.is_array()) {
    return a.size() == b.size() &&
           std::equal(a.begin(), a.end(), b.begin(), SameValue);
  }
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.items()) {
      const auto other = b.find(key);
      if (other == b.end() || !SameValue(value, *other)) return false;
    }
    return true;
  }
  return a == b;
}

// In their order: those of the part that is asked for, until there are as many
// questions as wanted.
std::vector<ComposeList> Drawn(std::vector<ComposeList> lists,
                               const ComposeListOptions& options) {
  constexpr uint64_t kSeed = 1;
  std::vector<ComposeList> drawn;
  auto left = static_cast<size_t>(options.queries);
  int place = 0;
  for (const int i : eval::Shuffled(lists.size(), kSeed)) {
    if (left == 0) break;
    if (place++ % options.parts != options.part - 1) continue;
    ComposeList& list = lists[static_cast<size_t>(i)];
    list.queries.resize(std::min(list.queries.size(), left));
    left -= list.queries.size();
    drawn.push_back(std::move(list));
  }
  return drawn;
}

}  // namespace

Result<std::vector<ComposeQuery>> ReadComposeQueries(const std::string& path) {
  NEXUS_ASSIGN_OR_RETURN(const std::string text,
                         FileSystem::Default().ReadFile(path));
  std::vector<ComposeQuery> queries;
  size_t begin = 0;
  for (int line = 1; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view content =
        std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string source = path + ", line " + std::to_string(line);
    NEXUS_ASSIGN_OR_RETURN(const Json value, ParseJson(content, source));
    NEXUS_ASSIGN_OR_RETURN(ComposeQuery query, ParseQuery(value, source));
    queries.push_back(std::move(query));
  }
  return queries;
}

bool ArgumentsAccepted(const Json& arguments, const Json& accepted) {
  if (!arguments.is_object() || !accepted.is_object()) return false;
  for (const auto& [name, value] : arguments.items()) {
    if (!accepted.contains(name)) return false;
  }
  for (const auto& [name, values] : accepted.items()) {
    const auto given = arguments.find(name);
    const Json absent;
    const Json& value = given == arguments.end() ? absent : *given;
    if (std::none_of(values.begin(), values.end(),
                     [&](const Json& one) { return SameValue(value, one); })) {
      return false;
    }
  }
  return true;
}

Result<std::vector<ComposeList>> MakeComposeLists(
    std::span<const schema::ToolSchema> tools,
    std::span<const ComposeQuery> queries, const ComposeListOptions& options) {
  if (options.blocks < 1 || options.queries < 1) {
    return InvalidArgumentError(
        "compose: lists of " + std::to_string(options.blocks) + " tools and " +
        std::to_string(options.queries) + " questions; expected 1 or more");
  }
  if (options.part < 1 || options.part > options.parts) {
    return InvalidArgumentError("compose: part " +
                                std::to_string(options.part) + " of " +
                                std::to_string(options.parts));
  }
  // The first tool of a name counts.
  std::map<std::string, size_t> by_name;
  std::vector<size_t> distinct;
  for (size_t i = 0; i < tools.size(); ++i) {
    if (by_name.emplace(tools[i].name, i).second) distinct.push_back(i);
    by_name.emplace(schema::ToolId(tools[i]), i);
  }
  const auto blocks = static_cast<size_t>(options.blocks);
  if (distinct.size() < blocks) {
    return InvalidArgumentError(
        "compose: lists of " + std::to_string(blocks) + " tools, but only " +
        std::to_string(distinct.size()) + " of different names are there");
  }
  const auto tool_of = [&](size_t query) -> const size_t* {
    for (const std::string& name : queries[query].gold) {
      if (const auto found = by_name.find(name); found != by_name.end()) {
        return &found->second;
      }
    }
    return nullptr;
  };
  std::vector<size_t> pending;
  for (size_t i = 0; i < queries.size(); ++i) {
    if (tool_of(i) != nullptr) pending.push_back(i);
  }
  if (pending.empty()) {
    return InvalidArgumentError(
        "compose: no question whose tool is among the tools");
  }
  std::vector<ComposeList> lists;
  while (!pending.empty()) {
    std::set<size_t> chosen;
    for (const size_t query : pending) {
      if (chosen.size() == blocks) break;
      chosen.insert(*tool_of(query));
    }
    for (const size_t tool : distinct) {
      if (chosen.size() == blocks) break;
      chosen.insert(tool);
    }
    ComposeList list;
    std::vector<schema::ToolSchema> members;
    const std::vector<size_t> indices(chosen.begin(), chosen.end());
    for (const size_t tool : indices) members.push_back(tools[tool]);
    for (const size_t i : CanonicalOrder(members)) {
      list.tools.push_back(indices[i]);
    }
    std::vector<size_t> rest;
    for (const size_t query : pending) {
      const bool is_asked = chosen.contains(*tool_of(query));
      (is_asked ? list.queries : rest).push_back(query);
    }
    pending = std::move(rest);
    lists.push_back(std::move(list));
  }
  return Drawn(std::move(lists), options);
}

}  // namespace nexus::engine
