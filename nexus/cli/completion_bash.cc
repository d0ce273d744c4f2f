#include "nexus/cli/completion.h"
#include "nexus/cli/completion_parts.h"

namespace nexus::cli {
namespace {

using Kind = ValueKind::Kind;

std::vector<std::string> CommandNames(const CommandDoc& command) {
  std::vector<std::string> names;
  for (const CommandDoc& sub : command.commands) names.push_back(sub.name);
  return names;
}

std::vector<std::string> FlagNames(const std::vector<FlagDoc>& flags) {
  std::vector<std::string> names;
  for (const FlagDoc& flag : flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

std::string BashReply(const ValueKind& value) {
  std::string reply;
  if (!value.words.empty()) {
    reply = "words " + ShellQuoted(JoinWords(value.words)) + "; ";
  }
  switch (value.kind) {
    case Kind::kFile:
      return reply + "paths -f";
    case Kind::kFolder:
      return reply + "paths -d";
    case Kind::kWords:
    case Kind::kNothing:
      break;
  }
  return reply.empty() ? ":" : reply;
}

}  // namespace

std::string BashCompletion(const CompletionInput& input) {
  std::string commands;
  std::string flags;
  std::string values;
  std::string positionals;
  VisitCommands(input.program, [&](const CommandDoc& command) {
    const std::string path = command.Path();
    if (!command.commands.empty()) {
      commands += "    " + ShellQuoted(path) + ") echo " +
                  ShellQuoted(JoinWords(CommandNames(command))) + " ;;\n";
    }
    const std::vector<FlagDoc> all = FlagsAt(command, input);
    flags += "    " + ShellQuoted(path) + ") echo " +
             ShellQuoted(JoinWords(FlagNames(all))) + " ;;\n";
    for (const FlagDoc& flag : all) {
      if (flag.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : flag.names) {
        patterns.push_back(ShellQuoted(path + " " + name));
      }
      values += "    " + JoinWords(patterns, " | ") + ") " +
                BashReply(ValueKindOf(flag, input)) + " ;;\n";
    }
    for (const FlagDoc& positional : command.positionals) {
      const ValueKind value = ValueKindOf(positional, input);
      if (value.kind == Kind::kNothing) continue;
      positionals +=
          "    " + ShellQuoted(path) + ") " + BashReply(value) + " ;;\n";
      break;
    }
  });
  return R"sh(# bash completion for nexus, made by `nexus completion bash`.
_nexus_commands() {
  case $1 in
)sh" + commands +
         R"sh(  esac
}

_nexus_flags() {
  case $1 in
)sh" + flags +
         R"sh(  esac
}

# Fails for a switch: what follows it stands for itself.
_nexus_value() {
  case $1 in
)sh" + values +
         R"sh(    *) return 1 ;;
  esac
}

_nexus_positional() {
  case $1 in
)sh" + positionals +
         R"sh(    *) return 1 ;;
  esac
}

_nexus() {
  local cur=${COMP_WORDS[COMP_CWORD]} path='' flag='' word i line
  COMPREPLY=()
  words() {
    while IFS= read -r line; do COMPREPLY+=("$line"); done \
      < <(compgen -W "$1" -- "$cur")
  }
  paths() {
    compopt -o filenames 2>/dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done \
      < <(compgen "$1" -- "$cur")
  }
  # Which command this is, and whether a flag waits for its value. Bash takes
  # "--flag=value" for three words.
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == '=' ]]; then
      continue
    elif [[ -n $flag ]]; then
      flag=''
    elif [[ $word == -* ]]; then
      if _nexus_value "$path $word" >/dev/null 2>&1; then flag=$word; fi
    elif [[ " $(_nexus_commands "$path") " == *" $word "* ]]; then
      path=${path:+$path }$word
    fi
  done
  COMPREPLY=()
  [[ $cur == '=' ]] && cur=''
  if [[ -n $flag ]]; then
    _nexus_value "$path $flag"
  elif [[ $cur == -* ]]; then
    words "$(_nexus_flags "$path")"
  else
    words "$(_nexus_commands "$path")"
    _nexus_positional "$path"
  fi
  unset -f words paths
}

complete -F _nexus nexus
)sh";
}

}  // namespace nexus::cli
