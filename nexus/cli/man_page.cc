#include "nexus/cli/man_page.h"

#include <cctype>
#include <string_view>
#include <vector>

namespace nexus::cli {
namespace {

// For roff: a line that begins with a dot or an apostrophe is a request, and
// plain hyphens, quotes and tildes would be typeset, so that nobody could copy
// a flag out of the page.
std::string Escaped(std::string_view text) {
  std::string safe;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) safe += "\\&";
    at_start = c == '\n';
    switch (c) {
      case '\\':
        safe += "\\e";
        break;
      case '-':
        safe += "\\-";
        break;
      case '~':
        safe += "\\(ti";
        break;
      case '^':
        safe += "\\(ha";
        break;
      case '`':
        safe += "\\(ga";
        break;
      case '\'':
        safe += "\\(aq";
        break;
      default:
        safe += c;
    }
  }
  return safe;
}

std::string Bold(std::string_view text) {
  return "\\fB" + Escaped(text) + "\\fR";
}
std::string Italic(std::string_view text) {
  return "\\fI" + Escaped(text) + "\\fR";
}

std::string Upper(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

std::string PageName(const CommandDoc& command) {
  return command.parents.empty() ? command.name
                                 : command.parents[0] + "-" + command.name;
}

std::string Sentence(std::string_view text) {
  return Escaped(text) + (text.ends_with('.') || text.empty() ? "" : ".");
}

std::string FlagEntry(const FlagDoc& flag) {
  std::string entry = ".TP\n";
  for (size_t i = 0; i < flag.names.size(); ++i) {
    if (i > 0) entry += ", ";
    entry += Bold(flag.names[i]);
  }
  if (!flag.value.empty() && flag.names[0].starts_with("-")) {
    entry += " " + Italic(flag.value);
  }
  if (flag.repeats) entry += " ...";
  entry += "\n" + Sentence(flag.description);
  if (!flag.choices.empty()) {
    std::string list;
    for (const std::string& choice : flag.choices) {
      list += (list.empty() ? "" : ", ") + Bold(choice);
    }
    entry += "\nOne of " + list + ".";
  }
  if (!flag.range.empty()) {
    entry += "\nRange: " + Escaped(flag.range) + ".";
  }
  if (!flag.default_value.empty()) {
    entry += "\nDefault: " + Bold(flag.default_value) + ".";
  }
  if (!flag.environment.empty()) {
    entry += "\nAlso set by " + Bold(flag.environment) + ".";
  }
  return entry + "\n";
}

std::string Entries(const std::vector<FlagDoc>& flags) {
  std::string entries;
  for (const FlagDoc& flag : flags) entries += FlagEntry(flag);
  return entries;
}

std::string SynopsisLine(const CommandDoc& command) {
  std::string line;
  for (const std::string& parent : command.parents) line += Bold(parent) + " ";
  line += Bold(command.name);
  if (!command.flags.empty()) line += " [" + Italic("options") + "]";
  if (!command.commands.empty()) line += " " + Italic("command") + " ...";
  for (const FlagDoc& positional : command.positionals) {
    const std::string name = Italic(positional.names[0]);
    line += positional.required ? " " + name : " [" + name + "]";
    if (positional.repeats) line += " ...";
  }
  return line + "\n";
}

// Lines as they stand; indented ones are examples.
std::string Footer(const std::string& text) {
  return text.empty() ? "" : ".nf\n" + Escaped(text) + "\n.fi\n";
}

void SubcommandSections(const CommandDoc& command, std::string* page) {
  for (const CommandDoc& sub : command.commands) {
    *page += ".SS " + Bold("nexus " + sub.Path()) + "\n" +
             Sentence(sub.description) + "\n.PP\n" + SynopsisLine(sub);
    *page += Entries(sub.positionals) + Entries(sub.flags);
    if (!sub.footer.empty() && sub.footer != command.footer) {
      *page += ".PP\n" + Footer(sub.footer);
    }
    SubcommandSections(sub, page);
  }
}

std::string ExitStatus() {
  std::string text = ".SH EXIT STATUS\n";
  const std::pair<const char*, const char*> codes[] = {
      {"0", "Done."},
      {"1", "Internal error, or something that Nexus refuses to do."},
      {"2", "Wrong flags or wrong input."},
      {"3", "A file, model, tool or block isn't there."},
      {"4", "Damaged, or made for another model or version."},
      {"5", "System: disk, memory, permissions, context too small."},
      {"6", "A server didn't answer."},
      {"7", "No tool fits the question."},
      {"8", "The tool reported an error, or the generated call isn't valid."},
      {"130", "Interrupted; what was finished is kept."}};
  for (const auto& [code, meaning] : codes) {
    text += ".TP\n" + Bold(code) + "\n" + Escaped(meaning) + "\n";
  }
  return text;
}

std::string Files() {
  return ".SH FILES\n.TP\n" + Bold("$XDG_CONFIG_HOME/nexus/config.toml") +
         "\nDefaults for any flag, unless " + Bold("--config") +
         " names another file: TOML or JSON. A key is a flag's long name "
         "without the dashes. At the top level it holds for every command that "
         "has the flag, in a table named after a command for that one. Flags "
         "beat environment variables, and those beat the file.\n" +
         Bold("nexus config") +
         " prints a file with all of them.\n"
         ".TP\n" +
         Bold("$XDG_CACHE_HOME/nexus") +
         "\nWeights, compiled blocks and embeddings, unless " +
         Bold("NEXUS_CACHE_DIR") + " names another folder.\n";
}

}  // namespace

std::string ManPageFile(const CommandDoc& command) {
  return PageName(command) + ".1";
}

std::string ManPage(const CommandDoc& program, const CommandDoc& command,
                    const std::string& version) {
  const bool is_program = command.parents.empty();
  std::string page =
      ".\\\" Made by `nexus man` from the command line's definition.\n.TH " +
      Escaped(Upper(PageName(command))) + " 1 \"\" \"" + Escaped(version) +
      "\" \"Nexus manual\"\n.SH NAME\n" + Escaped(PageName(command)) + " \\- " +
      Escaped(command.description) + "\n.SH SYNOPSIS\n" + SynopsisLine(command);
  if (is_program) {
    page += ".SH COMMANDS\n";
    for (const CommandDoc& sub : command.commands) {
      page += ".TP\n" + Bold(sub.name) + "\n" + Sentence(sub.description) +
              "\nSee " + Bold(PageName(sub)) + "(1).\n";
    }
  } else if (!command.positionals.empty()) {
    page += ".SH ARGUMENTS\n" + Entries(command.positionals);
  }
  page += ".SH OPTIONS\n" + Entries(command.flags);
  page += FlagEntry({.names = {"--help", "-h"},
                     .description = "Print what there is, and exit"});
  if (!is_program) {
    page += ".PP\nOptions of the program itself are good here too: see " +
            Bold(program.name) + "(1).\n";
    if (!command.commands.empty()) {
      page += ".SH COMMANDS\n";
      SubcommandSections(command, &page);
    }
  }
  if (!command.footer.empty()) page += ".SH NOTES\n" + Footer(command.footer);
  if (is_program) page += Files();
  page += ExitStatus() + ".SH SEE ALSO\n";
  if (!is_program) return page + Bold(program.name) + "(1)\n";
  for (size_t i = 0; i < command.commands.size(); ++i) {
    page += Bold(PageName(command.commands[i])) + "(1)" +
            (i + 1 < command.commands.size() ? ",\n" : "\n");
  }
  return page;
}

}  // namespace nexus::cli
