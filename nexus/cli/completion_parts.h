// What the completion scripts of all shells are made of.
#ifndef NEXUS_CLI_COMPLETION_PARTS_H_
#define NEXUS_CLI_COMPLETION_PARTS_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/cli/completion.h"

namespace nexus::cli {

std::string JoinWords(const std::vector<std::string>& words,
                      std::string_view between = " ");
// In single quotes; bash, zsh and fish agree on how to end them. Line ends
// become spaces.
std::string ShellQuoted(std::string_view text);

// `command` and all below it.
void VisitCommands(const CommandDoc& command,
                   const std::function<void(const CommandDoc&)>& visit);

// Its own flags, the program's, which are good behind every command, and
// --help.
std::vector<FlagDoc> FlagsAt(const CommandDoc& command,
                             const CompletionInput& input);

// What a shell should offer for the value of a flag or a positional.
struct ValueKind {
  enum class Kind { kNothing, kWords, kFile, kFolder };
  Kind kind = Kind::kNothing;
  std::vector<std::string> words;  // of kWords, and beside files
};
ValueKind ValueKindOf(const FlagDoc& flag, const CompletionInput& input);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_COMPLETION_PARTS_H_
