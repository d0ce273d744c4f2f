#include "nexus/eval/argument_tasks.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "nexus/eval/draws.h"

namespace nexus::eval {
namespace {

using NameTable = std::unordered_map<std::string, std::vector<int>>;

NameTable TableOf(std::span<const schema::ToolSchema> tools) {
  NameTable table;
  for (size_t i = 0; i < tools.size(); ++i) {
    const int number = static_cast<int>(i);
    table[tools[i].name].push_back(number);
    if (!tools[i].server.empty()) {
      table[schema::ToolId(tools[i])].push_back(number);
    }
  }
  return table;
}

bool HasArguments(const schema::ToolSchema& tool, const Json& arguments) {
  const auto properties = tool.parameters.find("properties");
  for (const auto& [name, accepted] : arguments.items()) {
    if (properties == tool.parameters.end() || !properties->is_object() ||
        !properties->contains(name)) {
      return false;
    }
  }
  return true;
}

// -1: none fits.
int Choose(std::span<const schema::ToolSchema> tools,
           const std::vector<int>& named, const LabelledCall& call) {
  if (call.schema >= 0) {
    const auto number = static_cast<size_t>(call.schema);
    if (number >= named.size()) return -1;
    const int tool = named[number];
    return HasArguments(tools[static_cast<size_t>(tool)], call.arguments) ? tool
                                                                          : -1;
  }
  for (const int tool : named) {
    if (HasArguments(tools[static_cast<size_t>(tool)], call.arguments)) {
      return tool;
    }
  }
  return -1;
}

Status NothingUsable(const ArgumentTasks& found, size_t queries) {
  std::string why = "none of the " + std::to_string(queries) +
                    " queries has one labelled call that the registry knows: ";
  if (queries == 0) {
    why = "no queries are left; see --split, --set, --part";
  } else {
    why += std::to_string(found.without_calls) + " have no \"calls\", " +
           std::to_string(found.several_calls) + " have several, " +
           std::to_string(found.unknown_tools) + " name an unknown tool, " +
           std::to_string(found.foreign_arguments) +
           " name arguments that their tool lacks, " +
           std::to_string(found.nothing_accepted) +
           " accept nothing for an argument";
  }
  if (!found.notes.empty()) why += "; the first: " + found.notes.front();
  return InvalidArgumentError(why);
}

}  // namespace

Result<ArgumentTasks> ResolveArgumentTasks(
    std::span<const schema::ToolSchema> tools,
    std::vector<LabelledQuery> queries) {
  if (tools.empty()) return InvalidArgumentError("the registry has no tools");
  const NameTable names = TableOf(tools);
  ArgumentTasks found;
  for (LabelledQuery& query : queries) {
    if (query.calls.empty()) {
      ++found.without_calls;
      continue;
    }
    if (query.calls.size() > 1) {
      ++found.several_calls;
      continue;
    }
    const LabelledCall& call = query.calls.front();
    if (std::any_of(call.arguments.begin(), call.arguments.end(),
                    [](const Json& accepted) { return accepted.empty(); })) {
      ++found.nothing_accepted;
      continue;
    }
    const auto named = names.find(call.tool);
    if (named == names.end()) {
      ++found.unknown_tools;
      found.notes.push_back("query " + query.id + ": no tool '" + call.tool +
                            "'");
      continue;
    }
    const int tool = Choose(tools, named->second, call);
    if (tool < 0) {
      ++found.foreign_arguments;
      found.notes.push_back("query " + query.id + ": no schema of '" +
                            call.tool + "' has all of the labelled arguments");
      continue;
    }
    ArgumentTask task;
    task.tool = tool;
    task.classes = ClassifyArguments(
        call.arguments, tools[static_cast<size_t>(tool)].parameters);
    task.query = std::move(query);
    found.tasks.push_back(std::move(task));
  }
  if (found.tasks.empty()) return NothingUsable(found, queries.size());
  return found;
}

void DrawTasks(size_t limit, uint64_t seed, std::vector<ArgumentTask>* tasks) {
  if (limit == 0 || tasks->size() <= limit) return;
  std::vector<int> drawn = Shuffled(tasks->size(), seed);
  drawn.resize(limit);
  std::sort(drawn.begin(), drawn.end());
  std::vector<ArgumentTask> kept;
  for (const int i : drawn) {
    kept.push_back(std::move((*tasks)[static_cast<size_t>(i)]));
  }
  *tasks = std::move(kept);
}

}  // namespace nexus::eval
