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
    throw CLI::FileError(where.str());
  }
}

}  // namespace

Items ConfigFile::from_config(std::istream& input) const {
  const std::string text{std::istreambuf_iterator<char>(input), {}};
  const size_t first = text.find_first_not_of(" \t\r\n");
  Json root = Json::object();
  if (first != std::string::npos && text[first] == '{') {
    auto parsed = ParseJson(text, "config file");
    if (!parsed.ok()) throw CLI::FileError(parsed.status().message());
    root = std::move(parsed).value();
  } else {
    root = FromToml(text);
  }
  Items flat;
  Flatten(root, {}, &flat);
  return flat;
}

std::string DefaultConfigPath() {
  if (const char* xdg = std::getenv("XDG_CONFIG_HOME"); xdg && *xdg) {
    return std::string(xdg) + "/nexus/config.toml";
  }
  const char* home = std::getenv("HOME");
  return std::string(home ? home : ".") + "/.config/nexus/config.toml";
}

}  // namespace nexus::cli
