// The real command line, with nothing run.
#include "nexus/cli/app.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/cli/command_doc.h"
#include "nexus/cli/config_example.h"

namespace nexus::cli {
namespace {

using testing::HasSubstr;

struct Program {
  Action action;
  ProgramFlags flags;
  std::unique_ptr<CLI::App> app = BuildApp(&action, &flags);

  CLI::App* Find(const CommandDoc& command) {
    CLI::App* found = app.get();
    std::istringstream words(command.Path());
    for (std::string word; words >> word;) found = found->get_subcommand(word);
    return found;
  }
};

// What a user must write to get there: the command, its first subcommand if it
// wants one, and what is required.
std::vector<std::string> Arguments(const CommandDoc& command) {
  std::vector<std::string> words;
  std::istringstream path(command.Path());
  for (std::string word; path >> word;) words.push_back(word);
  const CommandDoc* deepest = &command;
  while (!deepest->commands.empty() && !deepest->parents.empty()) {
    deepest = &deepest->commands.front();
    words.push_back(deepest->name);
  }
  for (const FlagDoc& flag : deepest->flags) {
    if (flag.required) words.insert(words.end(), {flag.names[0], "x"});
  }
  for (const FlagDoc& positional : deepest->positionals) {
    if (!positional.required) continue;
    words.push_back(positional.choices.empty() ? "x" : positional.choices[0]);
  }
  return words;
}

// As CLI11 wants them: the last first.
void Parse(Program* program, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());
  program->app->parse(words);
}

void ForEachCommand(const CommandDoc& command,
                    const std::function<void(const CommandDoc&)>& visit) {
  visit(command);
  for (const CommandDoc& sub : command.commands) ForEachCommand(sub, visit);
}

// `key = value` in the command's table, with what the flag needs beside it.
std::string ConfigLines(const CommandDoc& command, const CLI::App& app,
                        const FlagDoc& flag) {
  std::string lines = flag.Key() + " = " + ExampleValue(flag) + "\n";
  for (const CLI::Option* other : app.get_option(flag.names[0])->get_needs()) {
    for (const FlagDoc& needed : command.flags) {
      if (needed.Key() == other->get_lnames()[0]) {
        lines += needed.Key() + " = " + ExampleValue(needed) + "\n";
      }
    }
  }
  return lines;
}

TEST(AppTest, EveryFlagOfEveryCommandCanBeSetInAConfigFile) {
  const ScopedTempDir dir;
  const std::string path = dir.File("config.toml");
  int flags = 0;
  const Program described;
  ForEachCommand(DescribeApp(*described.app), [&](const CommandDoc& command) {
    for (const FlagDoc& flag : command.flags) {
      if (!IsConfigurable(flag)) continue;
      SCOPED_TRACE("nexus " + command.Path() + " " + flag.names[0]);
      // Required ones stand on the command line already, which wins.
      if (flag.required) continue;
      Program program;
      CLI::App* app = program.Find(command);
      std::string table = command.Path();
      std::replace(table.begin(), table.end(), ' ', '.');
      if (!table.empty()) table = "[" + table + "]\n";
      std::ofstream(path) << table + ConfigLines(command, *app, flag);
      std::vector<std::string> words = Arguments(command);
      words.insert(words.begin(), {"--config", path});
      EXPECT_NO_THROW(Parse(&program, words))
          << table << ConfigLines(command, *app, flag);
      EXPECT_GE(app->get_option(flag.names[0])->count(), 1U);
      ++flags;
    }
  });
  EXPECT_GT(flags, 100);
}

TEST(AppTest, TheEnvironmentMayNameTheConfigFileWhichMustThenBeThere) {
  const ScopedTempDir dir;
  const std::string path = dir.File("config.toml");
  ASSERT_EQ(::setenv("NEXUS_CONFIG", path.c_str(), 1), 0);
  Program missing;
  EXPECT_THROW(Parse(&missing, {"serve"}), CLI::FileError);
  std::ofstream(path) << "[serve]\nport = 1234\n";
  Program there;
  EXPECT_NO_THROW(Parse(&there, {"serve"}));
  ::unsetenv("NEXUS_CONFIG");
  EXPECT_EQ(there.app->get_subcommand("serve")->get_option("--port")->as<int>(),
            1234);
}

TEST(AppTest, AFlagBeatsWhatTheFileSaysAgainstIt) {
  const ScopedTempDir dir;
  const std::string path = dir.File("config.toml");
  std::ofstream(path) << "budget = \"fast\"\n[ask]\nrecompute = 10\n";
  Program program;
  EXPECT_NO_THROW(
      Parse(&program, {"--config", path, "serve", "--policy", "none"}));
  Program other;
  EXPECT_NO_THROW(
      Parse(&other, {"--config", path, "ask", "x", "--budget", "strict"}));
}

TEST(AppTest, EveryCommandAndEveryFlagIsDescribed) {
  const Program program;
  ForEachCommand(DescribeApp(*program.app), [&](const CommandDoc& command) {
    SCOPED_TRACE("nexus " + command.Path());
    EXPECT_FALSE(command.description.empty());
    std::set<std::string> names;
    for (const FlagDoc& flag : command.flags) {
      EXPECT_FALSE(flag.description.empty()) << flag.names[0];
      for (const std::string& name : flag.names) {
        EXPECT_TRUE(names.insert(name).second) << name << " stands twice";
      }
    }
  });
}

TEST(AppTest, TheExampleConfigNamesEveryFlagAndChangesNothing) {
  const Program program;
  const CommandDoc doc = DescribeApp(*program.app);
  const std::string example = ConfigExample(doc, "");
  ForEachCommand(doc, [&](const CommandDoc& command) {
    for (const FlagDoc& flag : command.flags) {
      if (!IsConfigurable(flag)) continue;
      EXPECT_THAT(example, HasSubstr("\n#" + flag.Key() + " = "))
          << command.Path();
    }
  });
  const ScopedTempDir dir;
  const std::string path = dir.File("config.toml");
  std::ofstream(path) << example;
  Program configured;
  EXPECT_NO_THROW(Parse(&configured, {"--config", path, "serve"}));
  EXPECT_EQ(
      configured.app->get_subcommand("serve")->get_option("--port")->count(),
      0U);
}

TEST(AppTest, TheExampleConfigOfOneCommandHasItsFlagsOnly) {
  const Program program;
  const std::string example = ConfigExample(DescribeApp(*program.app), "serve");
  EXPECT_THAT(example, HasSubstr("#[serve]"));
  EXPECT_THAT(example, HasSubstr("#port = 8080"));
  EXPECT_THAT(example, testing::Not(HasSubstr("#[ask]")));
}

TEST(AppTest, OnlyWhoReadsCloseCallsTakesAReranker) {
  Program program;
  const auto takes = [&](const char* command) {
    return program.app->get_subcommand(command)->get_option_no_throw(
               "--reranker") != nullptr;
  };
  for (const char* command : {"route", "ask", "serve", "doctor"}) {
    EXPECT_TRUE(takes(command)) << command;
  }
  EXPECT_FALSE(takes("mcp"));
}

TEST(AppTest, WhatIsHiddenIsNotDescribed) {
  const Program program;
  for (const CommandDoc& command : DescribeApp(*program.app).commands) {
    EXPECT_NE(command.name, "man");
    EXPECT_NE(command.name, "completion");
  }
}

}  // namespace
}  // namespace nexus::cli
