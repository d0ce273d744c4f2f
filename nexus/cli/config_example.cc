#include "nexus/cli/config_example.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "nexus/base/json.h"

namespace nexus::cli {
namespace {

bool IsNumber(const std::string& text) {
  const auto number = ParseJson(text, "number");
  return number.ok() && number->is_number();
}

std::string Lines(const FlagDoc& flag) {
  std::string comment = flag.description;
  if (!flag.choices.empty()) {
    comment += " (";
    for (size_t i = 0; i < flag.choices.size(); ++i) {
      comment += (i == 0 ? "" : ", ") + flag.choices[i];
    }
    comment += ")";
  }
  if (!flag.range.empty()) comment += " (" + flag.range + ")";
  if (!flag.environment.empty()) comment += " [" + flag.environment + "]";
  std::string lines;
  std::istringstream words(comment);
  std::string line = "#";
  constexpr size_t kWidth = 79;
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > kWidth) {
      lines += line + "\n";
      line = "#";
    }
    line += " " + word;
  }
  return lines + line + "\n#" + flag.Key() + " = " + ExampleValue(flag) + "\n";
}

// Two flags are the same one if they say the same.
std::string Identity(const FlagDoc& flag) {
  return flag.Key() + '\0' + flag.description + '\0' + flag.value;
}

using Counts = std::map<std::string, int>;

void Count(const CommandDoc& command, Counts* counts) {
  for (const FlagDoc& flag : command.flags) ++(*counts)[Identity(flag)];
  for (const CommandDoc& sub : command.commands) Count(sub, counts);
}

void Shared(const CommandDoc& command, Counts* counts, std::string* out) {
  for (const FlagDoc& flag : command.flags) {
    int& count = (*counts)[Identity(flag)];
    if (!IsConfigurable(flag) || count < 2) continue;
    *out += "\n" + Lines(flag);
    count = -1;  // written
  }
  for (const CommandDoc& sub : command.commands) Shared(sub, counts, out);
}

void Tables(const CommandDoc& command, const Counts& counts, std::string* out) {
  std::string lines;
  for (const FlagDoc& flag : command.flags) {
    if (!IsConfigurable(flag) || counts.at(Identity(flag)) < 0) continue;
    lines += "\n" + Lines(flag);
  }
  if (!lines.empty()) {
    std::string name = command.Path();
    std::replace(name.begin(), name.end(), ' ', '.');
    *out += "\n# " + command.description + ".\n#[" + name + "]\n" + lines;
  }
  for (const CommandDoc& sub : command.commands) Tables(sub, counts, out);
}

}  // namespace

bool IsConfigurable(const FlagDoc& flag) {
  const std::string key = flag.Key();
  return !key.empty() && key != "config" && key != "version";
}

std::string ExampleValue(const FlagDoc& flag) {
  if (flag.value.empty()) return "true";
  const bool is_number = flag.value == "INT" || flag.value == "UINT" ||
                         flag.value == "FLOAT" || flag.value == "NUMBER";
  const auto in_toml = [&](const std::string& value) {
    return is_number && IsNumber(value) ? value : DumpJson(Json(value));
  };
  std::string value = flag.default_value;
  if (value.empty() && !flag.choices.empty()) value = flag.choices[0];
  // "0 - 65535", "0 to 2": the lower end.
  if (value.empty()) value = flag.range.substr(0, flag.range.find(' '));
  if (value.empty()) value = is_number ? "1" : flag.value;
  if (!flag.repeats) return in_toml(value);
  // CLI11 writes the default of several as "[a,b]".
  if (value.starts_with('[') && value.ends_with(']')) {
    value = value.substr(1, value.size() - 2);
  }
  std::istringstream list(value);
  std::string array;
  for (std::string item; std::getline(list, item, ',');) {
    array += (array.empty() ? "" : ", ") + in_toml(item);
  }
  return "[" + array + "]";
}

std::string ConfigExample(const CommandDoc& program, const std::string& only) {
  CommandDoc shown = program;
  if (!only.empty()) {
    std::erase_if(shown.commands, [&](const CommandDoc& command) {
      return command.name != only;
    });
  }
  std::string text =
      "# Configuration of nexus, TOML. Every flag that there is; take the # "
      "away from\n# what should differ from the defaults. A key at the top "
      "holds for every command\n# that has the flag, one in a table for that "
      "command. Flags beat environment\n# variables, those beat this file.\n";
  for (const FlagDoc& flag : shown.flags) {
    if (IsConfigurable(flag)) text += "\n" + Lines(flag);
  }
  Counts counts;
  for (const CommandDoc& command : shown.commands) Count(command, &counts);
  for (const CommandDoc& command : shown.commands) {
    Shared(command, &counts, &text);
  }
  for (const CommandDoc& command : shown.commands) {
    Tables(command, counts, &text);
  }
  return text;
}

}  // namespace nexus::cli
