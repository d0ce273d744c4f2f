#include "nexus/eval/twin_file.h"

#include <numeric>
#include <string_view>
#include <utility>

#include "nexus/base/file_system.h"
#include "nexus/base/json_lines.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::eval {
namespace {

int Root(std::vector<int>* parent, int node) {
  while ((*parent)[static_cast<size_t>(node)] != node) {
    // Halves the path for the next one who walks it.
    int& up = (*parent)[static_cast<size_t>(node)];
    up = (*parent)[static_cast<size_t>(up)];
    node = up;
  }
  return node;
}

}  // namespace

Result<TwinLabels> ReadTwinFile(const std::string& path) {
  if (path.empty()) return TwinLabels();
  NEXUS_ASSIGN_OR_RETURN(const std::string text,
                         FileSystem::Default().ReadFile(path));
  TwinLabels labels;
  NEXUS_RETURN_IF_ERROR(ForEachJsonLine(
      text, path,
      [&](const Json& row, const std::string& where, size_t) -> Status {
        if (!row.is_object() || !row.contains("id") || !row["id"].is_string() ||
            !row.contains("twin") || !row["twin"].is_string()) {
          return InvalidArgumentError(
              where +
              ": expected an object with the strings \"id\" (of a tool, as "
              "server/name) and \"twin\"");
        }
        labels[row["id"].get<std::string>()] = row["twin"].get<std::string>();
        return Status::Ok();
      }));
  return labels;
}

std::vector<int> TwinClasses(const route::ToolIndex& registry,
                             const TwinLabels& labels) {
  const std::span<const int> known = registry.twin_class();
  std::vector<int> classes(known.begin(), known.end());
  if (labels.empty()) return classes;
  const int count = static_cast<int>(classes.size());
  // The first tool of each class, known or labelled, stands for it.
  std::vector<int> parent(classes.size());
  std::iota(parent.begin(), parent.end(), 0);
  std::unordered_map<int, int> first_of_class;
  std::unordered_map<std::string_view, int> first_of_label;
  for (int tool = 0; tool < count; ++tool) {
    const auto join = [&](int with) {
      parent[static_cast<size_t>(Root(&parent, tool))] = Root(&parent, with);
    };
    join(first_of_class.try_emplace(known[static_cast<size_t>(tool)], tool)
             .first->second);
    const auto label = labels.find(schema::ToolId(registry.tool(tool)));
    if (label == labels.end()) continue;
    join(first_of_label.try_emplace(label->second, tool).first->second);
  }
  for (int tool = 0; tool < count; ++tool) {
    classes[static_cast<size_t>(tool)] = Root(&parent, tool);
  }
  return classes;
}

}  // namespace nexus::eval
