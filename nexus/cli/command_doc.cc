#include "nexus/cli/command_doc.h"

#include <sstream>

namespace nexus::cli {
namespace {

// CLI11 has a type and its validators as one text only: "FILE",
// "TEXT:{auto,on,off}", "INT:INT in [0 - 65535]", "FLOAT:0 to 2".
void ReadType(const CLI::Option& option, FlagDoc* doc) {
  if (option.get_expected_min() == 0 && !option.get_positional()) return;
  std::string type = option.get_type_name();
  std::string check;
  if (const size_t colon = type.find(':'); colon != std::string::npos) {
    check = type.substr(colon + 1);
    type.resize(colon);
  }
  doc->value = type;
  const size_t open = check.find_first_of("{[");
  const size_t close = check.find_last_of("}]");
  if (open == std::string::npos || close == std::string::npos) {
    doc->range = check;
    return;
  }
  const std::string inner = check.substr(open + 1, close - open - 1);
  if (check[open] == '[') {
    doc->range = inner;
    return;
  }
  std::istringstream list(inner);
  for (std::string choice; std::getline(list, choice, ',');) {
    // A transformer's "{all->2,find->0} OR {2,0}" is no list of values, and
    // nothing that a shell should read.
    if (choice.find_first_of(" <>{}()|&;$`'\"\\") != std::string::npos) {
      doc->choices.clear();
      return;
    }
    doc->choices.push_back(choice);
  }
}

FlagDoc DescribeFlag(const CLI::Option& option) {
  FlagDoc doc;
  if (option.get_positional()) {
    doc.names.push_back(option.get_name(true));
  } else {
    for (const std::string& name : option.get_lnames()) {
      doc.names.push_back("--" + name);
    }
    for (const std::string& name : option.get_snames()) {
      doc.names.push_back("-" + name);
    }
  }
  ReadType(option, &doc);
  doc.default_value = option.get_default_str();
  doc.environment = option.get_envname();
  doc.description = option.get_description();
  doc.repeats = option.get_items_expected_max() > 1;
  doc.required = option.get_required();
  return doc;
}

CommandDoc Describe(const CLI::App& app, std::vector<std::string> parents) {
  CommandDoc doc;
  doc.name = app.get_name();
  doc.parents = parents;
  doc.description = app.get_description();
  doc.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option == app.get_help_ptr() || option->get_group().empty()) continue;
    (option->get_positional() ? doc.positionals : doc.flags)
        .push_back(DescribeFlag(*option));
  }
  parents.push_back(doc.name);
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_group().empty()) continue;
    doc.commands.push_back(Describe(*command, parents));
  }
  return doc;
}

}  // namespace

std::string FlagDoc::Key() const {
  for (const std::string& name : names) {
    if (name.starts_with("--")) return name.substr(2);
  }
  return {};
}

std::string CommandDoc::Path() const {
  if (parents.empty()) return {};
  std::string path;
  for (size_t i = 1; i < parents.size(); ++i) path += parents[i] + " ";
  return path + name;
}

CommandDoc DescribeApp(const CLI::App& app) { return Describe(app, {}); }

}  // namespace nexus::cli
