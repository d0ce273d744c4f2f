#include "nexus/cli/completion.h"
#include "nexus/cli/completion_parts.h"

namespace nexus::cli {
namespace {

using Kind = ValueKind::Kind;

// Functions and replies are named after it: letters, digits, underscores.
std::string FunctionName(const CommandDoc& command) {
  std::string name = "_nexus";
  for (const char c : " " + command.Path()) {
    if (name == "_nexus" && command.parents.empty()) break;
    name += c == ' ' || c == '-' ? '_' : c;
  }
  return name;
}

// In an _arguments spec these are syntax.
std::string ZshText(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe;
}

std::string ZshAction(const ValueKind& value) {
  switch (value.kind) {
    case Kind::kWords:
      return "(" + JoinWords(value.words) + ")";
    case Kind::kFile:
      if (value.words.empty()) return "_files";
      return "{ compadd -- " + JoinWords(value.words) + "; _files }";
    case Kind::kFolder:
      return "_files -/";
    case Kind::kNothing:
      break;
  }
  return " ";
}

std::string ZshSpecs(const CommandDoc& command, const CompletionInput& input) {
  std::string specs;
  for (const FlagDoc& flag : FlagsAt(command, input)) {
    const std::string tail =
        "[" + ZshText(flag.description) + "]" +
        (flag.value.empty() ? ""
                            : ":" + ZshText(flag.value) + ":" +
                                  ZshAction(ValueKindOf(flag, input)));
    for (const std::string& name : flag.names) {
      std::string spec;
      if (flag.repeats) {
        spec = "*";
      } else if (flag.names.size() > 1) {
        spec = "(" + JoinWords(flag.names) + ")";
      }
      spec += name;
      // "--flag=value" is one word, "-f value" two.
      if (!flag.value.empty() && name.starts_with("--")) spec += "=";
      specs += " \\\n    " + ShellQuoted(spec + tail);
    }
  }
  return specs;
}

void ZshFunction(const CommandDoc& command, const CompletionInput& input,
                 std::string* out) {
  const std::string name = FunctionName(command);
  *out += name + "() {\n";
  if (command.commands.empty()) {
    *out += "  _arguments -s" + ZshSpecs(command, input);
    for (const FlagDoc& positional : command.positionals) {
      *out +=
          " \\\n    " + ShellQuoted((positional.repeats ? "*:" : ":") +
                                    ZshText(positional.names[0]) + ":" +
                                    ZshAction(ValueKindOf(positional, input)));
    }
    *out += "\n}\n\n";
    return;
  }
  *out +=
      "  local curcontext=$curcontext state line ret=1\n"
      "  typeset -A opt_args\n"
      "  _arguments -s -C -A '-*'" +
      ZshSpecs(command, input) +
      " \\\n    '1:command:->command' '*::argument:->argument' && ret=0\n"
      "  case $state in\n    command)\n      local -a commands=(\n";
  for (const CommandDoc& sub : command.commands) {
    *out += "        " +
            ShellQuoted(sub.name + ":" + ZshText(sub.description)) + "\n";
  }
  *out +=
      "      )\n      _describe -t commands command commands && ret=0\n      "
      ";;\n"
      "    argument)\n      case $words[1] in\n";
  for (const CommandDoc& sub : command.commands) {
    *out += "        " + sub.name + ") " + FunctionName(sub) + " && ret=0 ;;\n";
  }
  *out += "      esac\n      ;;\n  esac\n  return ret\n}\n\n";
  for (const CommandDoc& sub : command.commands) ZshFunction(sub, input, out);
}

}  // namespace

std::string ZshCompletion(const CompletionInput& input) {
  std::string script =
      "#compdef nexus\n# zsh completion for nexus, made by `nexus completion "
      "zsh`.\n\n";
  ZshFunction(input.program, input, &script);
  // Both ways of loading: autoloaded from fpath the file is the function's
  // body; sourced it only registers.
  return script +
         "if [ \"$funcstack[1]\" = \"_nexus\" ]; then\n"
         "  _nexus \"$@\"\nelse\n  compdef _nexus nexus\nfi\n";
}

}  // namespace nexus::cli
