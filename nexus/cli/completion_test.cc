#include "nexus/cli/completion.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/cli/command_doc.h"

namespace nexus::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

// A small program with one of everything.
CompletionInput Input() {
  static std::string text;
  static std::vector<std::string> list;
  static int number;
  static bool on;
  CLI::App app("A program of the kind that it's about", "nexus");
  app.fallthrough();
  app.add_option("--config", text, "A file")->type_name("FILE");
  CLI::App* ask = app.add_subcommand("ask", "Ask: it's \"easy\" [really]");
  ask->add_option("question", text, "Words")->required();
  ask->add_option("-m,--model", text, "Which")->type_name("MODEL");
  ask->add_option("--tier", text, "How")
      ->check(CLI::IsMember({"auto", "splice"}))
      ->capture_default_str();
  ask->add_option("--ctx", number, "Tokens")->check(CLI::Range(64, 4096));
  ask->add_option("--mcp", list, "Servers")->type_name("FILE");
  ask->add_flag("--json", on, "Machine-readable");
  ask->add_option("--secret", text, "Not shown")->group("");
  CLI::App* bench = app.add_subcommand("bench", "Measure");
  CLI::App* ttft = bench->add_subcommand("ttft", "The first token");
  ttft->add_option("--runs", number, "How many");
  app.add_subcommand("hidden", "Not shown")->group("");
  return {.program = DescribeApp(app), .models = {"big", "small"}};
}

// What the script offers for the words, the last of which is being written.
std::vector<std::string> Bash(const std::vector<std::string>& words,
                              const std::string& dir = "/") {
  const ScopedTempDir scripts;
  const std::string path = scripts.File("try.bash");
  {
    std::ofstream file(path);
    file << "set -u\ncd '" << dir << "'\n" << BashCompletion(Input());
    file << "COMP_WORDS=(nexus";
    for (const std::string& word : words) file << " '" << word << "'";
    file << ")\nCOMP_CWORD=" << words.size() << "\n_nexus nexus\n"
         << "if [ ${#COMPREPLY[@]} -gt 0 ]; then\n"
         << "  printf '%s\\n' \"${COMPREPLY[@]}\"\nfi\n";
  }
  std::vector<std::string> replies;
  FILE* pipe = ::popen(("bash --norc --noprofile " + path).c_str(), "r");
  NEXUS_CHECK(pipe != nullptr);
  std::string line;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != '\n') {
      line += static_cast<char>(c);
      continue;
    }
    replies.push_back(line);
    line.clear();
  }
  EXPECT_EQ(::pclose(pipe), 0);
  return replies;
}

TEST(CommandDocTest, TypesAreTakenApart) {
  const CompletionInput input = Input();
  const CommandDoc& ask = input.program.commands[0];
  ASSERT_EQ(ask.flags.size(), 5U) << "the hidden one is left out";
  EXPECT_THAT(ask.flags[0].names, ElementsAre("--model", "-m"));
  EXPECT_EQ(ask.flags[0].Key(), "model");
  EXPECT_THAT(ask.flags[1].choices, UnorderedElementsAre("auto", "splice"));
  EXPECT_EQ(ask.flags[2].value, "INT");
  EXPECT_EQ(ask.flags[2].range, "64 - 4096");
  EXPECT_TRUE(ask.flags[3].repeats);
  EXPECT_EQ(ask.flags[3].value, "FILE");
  EXPECT_FALSE(ask.flags[2].repeats);
  EXPECT_EQ(ask.flags[4].value, "");
  ASSERT_EQ(ask.positionals.size(), 1U);
  EXPECT_TRUE(ask.positionals[0].required);
  EXPECT_EQ(input.program.commands[1].commands[0].Path(), "bench ttft");
}

TEST(CompletionTest, BashOffersCommands) {
  EXPECT_THAT(Bash({""}), UnorderedElementsAre("ask", "bench"));
  EXPECT_THAT(Bash({"b"}), ElementsAre("bench"));
  EXPECT_THAT(Bash({"bench", ""}), ElementsAre("ttft"));
}

TEST(CompletionTest, BashOffersTheFlagsOfTheCommandAndOfTheProgram) {
  EXPECT_THAT(Bash({"ask", "--m"}), UnorderedElementsAre("--model", "--mcp"));
  EXPECT_THAT(Bash({"ask", "--c"}), UnorderedElementsAre("--ctx", "--config"));
  EXPECT_THAT(Bash({"bench", "ttft", "--r"}), ElementsAre("--runs"));
  EXPECT_THAT(Bash({"ask", "--s"}), IsEmpty());
}

TEST(CommandDocTest, ATransformersMapIsNoListOfValues) {
  CLI::App app("program", "nexus");
  int value = 0;
  app.add_option("--expose", value, "What")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, int>{{"find", 0}, {"all", 2}}));
  const CommandDoc doc = DescribeApp(app);
  const auto flag = std::find_if(
      doc.flags.begin(), doc.flags.end(),
      [](const FlagDoc& f) { return f.names.front() == "--expose"; });
  ASSERT_NE(flag, doc.flags.end());
  EXPECT_TRUE(flag->choices.empty());
}

TEST(CompletionTest, BashOffersTheValuesOfAFlag) {
  EXPECT_THAT(Bash({"ask", "--tier", "s"}), ElementsAre("splice"));
  // As bash splits "--tier=s" and "--tier=".
  EXPECT_THAT(Bash({"ask", "--tier", "=", "s"}), ElementsAre("splice"));
  EXPECT_THAT(Bash({"ask", "--tier", "="}),
              UnorderedElementsAre("auto", "splice"));
  EXPECT_THAT(Bash({"ask", "-m", "sm"}), ElementsAre("small"));
  EXPECT_THAT(Bash({"ask", "--ctx", ""}), IsEmpty());
}

TEST(CompletionTest, BashTakesNoValueForACommandOrAFlag) {
  EXPECT_THAT(Bash({"--config", "bench", ""}),
              UnorderedElementsAre("ask", "bench"));
  EXPECT_THAT(Bash({"ask", "--tier", "auto", "--ti"}), ElementsAre("--tier"));
}

TEST(CompletionTest, BashOffersFilesWithSpacesWhole) {
  const ScopedTempDir dir;
  std::ofstream(dir.File("my servers.json")) << "{}";
  EXPECT_THAT(Bash({"ask", "--mcp", "my"}, dir.path()),
              ElementsAre("my servers.json"));
}

TEST(CompletionTest, ZshAndFishHaveAllFlagsAndQuoteDescriptions) {
  const std::string zsh = ZshCompletion(Input());
  EXPECT_THAT(zsh, HasSubstr("'ask:Ask\\: it'\\''s \"easy\" \\[really\\]'"));
  EXPECT_THAT(zsh, HasSubstr("'--tier=[How]:TEXT:(auto splice)'"));
  EXPECT_THAT(zsh, HasSubstr("'*--mcp=[Servers]:FILE:_files'"));
  EXPECT_THAT(zsh, Not(HasSubstr("secret")));
  const std::string fish = FishCompletion(Input());
  EXPECT_THAT(fish, HasSubstr("-l tier -x -a 'auto splice' -d 'How'"));
  EXPECT_THAT(fish, HasSubstr("-l model -s m -r -F -a 'big small'"));
  EXPECT_THAT(fish, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace nexus::cli
