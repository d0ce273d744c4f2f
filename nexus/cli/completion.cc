#include "nexus/cli/completion_parts.h"

namespace nexus::cli {

std::string JoinWords(const std::vector<std::string>& words,
                      std::string_view between) {
  std::string all;
  for (const std::string& word : words) {
    all += (all.empty() ? "" : std::string(between)) + word;
  }
  return all;
}

std::string ShellQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c == '\n' ? ' ' : c;
    }
  }
  return quoted + "'";
}

void VisitCommands(const CommandDoc& command,
                   const std::function<void(const CommandDoc&)>& visit) {
  visit(command);
  for (const CommandDoc& sub : command.commands) VisitCommands(sub, visit);
}

std::vector<FlagDoc> FlagsAt(const CommandDoc& command,
                             const CompletionInput& input) {
  std::vector<FlagDoc> flags = command.flags;
  if (!command.parents.empty()) {
    const auto& own = input.program.flags;
    flags.insert(flags.end(), own.begin(), own.end());
  }
  flags.push_back(
      {.names = {"--help", "-h"}, .description = "Print help and exit"});
  return flags;
}

ValueKind ValueKindOf(const FlagDoc& flag, const CompletionInput& input) {
  if (!flag.choices.empty()) return {ValueKind::Kind::kWords, flag.choices};
  if (flag.value == "FILE" || flag.value == "PATH")
    return {ValueKind::Kind::kFile, {}};
  if (flag.value == "DIR") return {ValueKind::Kind::kFolder, {}};
  const bool is_model = flag.value == "MODEL" ||
                        (!flag.names.empty() && flag.names[0] == "model");
  if (is_model) return {ValueKind::Kind::kFile, input.models};
  return {};
}

}  // namespace nexus::cli
