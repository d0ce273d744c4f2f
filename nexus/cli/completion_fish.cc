#include "nexus/cli/completion.h"
#include "nexus/cli/completion_parts.h"

namespace nexus::cli {

std::string FishCompletion(const CompletionInput& input) {
  std::vector<std::string> paths;
  std::vector<std::string> takers;
  std::string lines;
  VisitCommands(input.program, [&](const CommandDoc& command) {
    const std::string path = command.Path();
    if (!path.empty()) paths.push_back(ShellQuoted(path));
    const std::string begin = "complete -c nexus -n " +
                              ShellQuoted("__nexus_at " + ShellQuoted(path));
    for (const CommandDoc& sub : command.commands) {
      lines += begin + " -f -a " + sub.name + " -d " +
               ShellQuoted(sub.description) + "\n";
    }
    for (const FlagDoc& flag : FlagsAt(command, input)) {
      std::string line = begin;
      for (const std::string& name : flag.names) {
        line += name.starts_with("--") ? " -l " + name.substr(2)
                                       : " -s " + name.substr(1);
        if (!flag.value.empty())
          takers.push_back(ShellQuoted(path + " " + name));
      }
      const ValueKind value = ValueKindOf(flag, input);
      if (flag.value.empty()) {
        line += " -f";
      } else if (value.kind == ValueKind::Kind::kFile) {
        line += " -r -F";
      } else if (value.kind == ValueKind::Kind::kFolder) {
        line += " -x -a " + ShellQuoted("(__fish_complete_directories)");
      } else {
        line += " -x";
      }
      if (!value.words.empty())
        line += " -a " + ShellQuoted(JoinWords(value.words));
      lines += line + " -d " + ShellQuoted(flag.description) + "\n";
    }
    bool takes_files = false;
    for (const FlagDoc& positional : command.positionals) {
      const ValueKind value = ValueKindOf(positional, input);
      takes_files = takes_files || value.kind == ValueKind::Kind::kFile;
      if (!value.words.empty()) {
        lines += begin + " -a " + ShellQuoted(JoinWords(value.words)) + "\n";
      }
    }
    if (!takes_files) lines += begin + " -f\n";
  });
  return R"sh(# fish completion for nexus, made by `nexus completion fish`.
# Whether the words so far lead to the command in $argv[1].
function __nexus_at
    set -l commands )sh" +
         JoinWords(paths) + R"sh(
    set -l takers )sh" +
         JoinWords(takers) + R"sh(
    set -l path ''
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            if contains -- "$path $word" $takers
                set skip 1
            end
        else
            set -l deeper (string trim -- "$path $word")
            if contains -- $deeper $commands
                set path $deeper
            end
        end
    end
    test "$path" = "$argv[1]"
end

)sh" + lines;
}

}  // namespace nexus::cli
