#include "nexus/cli/config_file.h"

#include <cstdlib>
#include <iterator>
#include <sstream>

#include "toml++/toml.h"

#include "nexus/base/json.h"

namespace nexus::cli {
namespace {

using Items = std::vector<CLI::ConfigItem>;

std::string ScalarText(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

void Flatten(const Json& object, const std::vector<std::string>& parents,
             Items* out) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      std::vector<std::string> deeper = parents;
      deeper.push_back(key);
      // CLI11 wants to be told where a subcommand's section opens and closes.
      out->push_back({.parents = deeper, .name = "++", .inputs = {}});
      Flatten(value, deeper, out);
      out->push_back({.parents = deeper, .name = "--", .inputs = {}});
      continue;
    }
    CLI::ConfigItem item{.parents = parents, .name = key, .inputs = {}};
    if (value.is_array()) {
      for (const Json& element : value) {
        item.inputs.push_back(ScalarText(element));
      }
    } else {
      item.inputs.push_back(ScalarText(value));
    }
    out->push_back(std::move(item));
  }
}

Json FromToml(const std::string& text) {
  try {
    const toml::table table = toml::parse(text);
    std::ostringstream json;
    json << toml::json_formatter{table};
    return Json::parse(json.str());
  } catch (const toml::parse_error& error) {
    std::ostringstream where;
    where << "config file: " << error.description() << " (" << error.source()
          << ")";
    throw CLI::ConfigError(where.str());
  }
}

// Only the shown flags of commands, found by their long name.
const CLI::Option* FindOption(const CLI::App& command, const std::string& key) {
  return command.get_option_no_throw("--" + key);
}

// Whether the file has no say in this flag: the environment decides it, or the
// command line has one that excludes it. CLI11 itself would let the file win,
// or call it a contradiction.
bool IsDecided(const CLI::Option* option) {
  if (option == nullptr) return false;
  if (!option->get_envname().empty() &&
      std::getenv(option->get_envname().c_str()) != nullptr) {
    return true;
  }
  for (const CLI::Option* other : option->get_excludes()) {
    if (other->count() > 0) return true;
  }
  return false;
}

// Copies a top-level item to every command below `command` that has the flag.
bool Spread(const CLI::App& command, const std::vector<std::string>& parents,
            const CLI::ConfigItem& item, Items* out) {
  bool known = false;
  if (const CLI::Option* option = FindOption(command, item.name)) {
    known = true;
    if (!IsDecided(option)) {
      CLI::ConfigItem copy = item;
      copy.parents = parents;
      out->push_back(std::move(copy));
    }
  }
  for (const CLI::App* sub : command.get_subcommands(nullptr)) {
    std::vector<std::string> deeper = parents;
    deeper.push_back(sub->get_name());
    known = Spread(*sub, deeper, item, out) || known;
  }
  return known;
}

const CLI::App* FindCommand(const CLI::App& app,
                            const std::vector<std::string>& path) {
  const CLI::App* command = &app;
  for (const std::string& name : path) {
    const auto named = command->get_subcommands(
        [&](const CLI::App* sub) { return sub->get_name() == name; });
    if (named.empty()) return nullptr;
    command = named.front();
  }
  return command;
}

}  // namespace

Items ConfigFile::from_config(std::istream& input) const {
  const std::string text{std::istreambuf_iterator<char>(input), {}};
  const size_t first = text.find_first_not_of(" \t\r\n");
  Json root = Json::object();
  if (first != std::string::npos && text[first] == '{') {
    auto parsed = ParseJson(text, "config file");
    if (!parsed.ok()) throw CLI::ConfigError(parsed.status().message());
    root = std::move(parsed).value();
  } else {
    root = FromToml(text);
  }
  Items flat;
  Flatten(root, {}, &flat);
  // CLI11 keeps the first value of a flag, so the commands' own come first.
  Items ordered;
  for (const CLI::ConfigItem& item : flat) {
    if (item.parents.empty()) continue;
    const CLI::App* command = FindCommand(*app_, item.parents);
    if (command != nullptr && IsDecided(FindOption(*command, item.name))) {
      continue;
    }
    ordered.push_back(item);
  }
  for (const CLI::ConfigItem& item : flat) {
    if (!item.parents.empty()) continue;
    // Unknown: left for CLI11 to name.
    if (!Spread(*app_, {}, item, &ordered)) ordered.push_back(item);
  }
  return ordered;
}

std::string DefaultConfigPath() {
  if (const char* xdg = std::getenv("XDG_CONFIG_HOME"); xdg && *xdg) {
    return std::string(xdg) + "/nexus/config.toml";
  }
  const char* home = std::getenv("HOME");
  return std::string(home ? home : ".") + "/.config/nexus/config.toml";
}

}  // namespace nexus::cli
