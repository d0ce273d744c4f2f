#include "nexus/cli/man_page.h"

#include "gmock/gmock.h"

namespace nexus::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

CommandDoc Program() {
  CommandDoc serve{.name = "serve",
                   .parents = {"nexus"},
                   .description = "Serve it",
                   .footer = "nexus serve --port 0\n.hidden"};
  serve.flags.push_back({.names = {"--log-format", "-l"},
                         .value = "TEXT",
                         .choices = {"text", "json"},
                         .default_value = "text",
                         .environment = "NEXUS_LOG_FORMAT",
                         .description = "How it's written"});
  CommandDoc bench{
      .name = "bench", .parents = {"nexus"}, .description = "Measure"};
  CommandDoc ttft{.name = "ttft",
                  .parents = {"nexus", "bench"},
                  .description = "Time to the first token"};
  ttft.flags.push_back(
      {.names = {"--runs"}, .value = "INT", .description = "N"});
  bench.commands.push_back(ttft);
  return {.name = "nexus",
          .description = "The program",
          .commands = {serve, bench}};
}

std::string Page(size_t command) {
  const CommandDoc program = Program();
  return ManPage(program, program.commands[command], "nexus 1.2.3");
}

TEST(ManPageTest, AFlagSaysAllThatIsKnownOfIt) {
  EXPECT_THAT(Page(0),
              HasSubstr(".TP\n\\fB\\-\\-log\\-format\\fR, \\fB\\-l\\fR "
                        "\\fITEXT\\fR\nHow it\\(aqs written.\nOne of "
                        "\\fBtext\\fR, \\fBjson\\fR.\nDefault: "
                        "\\fBtext\\fR.\nAlso set by "
                        "\\fBNEXUS_LOG_FORMAT\\fR.\n"));
}

TEST(ManPageTest, TextCannotBecomeARequest) {
  EXPECT_THAT(Page(0), HasSubstr("\n\\&.hidden\n"));
  EXPECT_THAT(Page(0), Not(HasSubstr("\n.hidden")));
}

TEST(ManPageTest, SubcommandsStandInTheirCommandsPage) {
  EXPECT_THAT(Page(1), HasSubstr(".SS \\fBnexus bench ttft\\fR"));
  EXPECT_THAT(Page(1), HasSubstr("\\-\\-runs"));
}

TEST(ManPageTest, TheProgramsPageLeadsToTheOthers) {
  const CommandDoc program = Program();
  const std::string page = ManPage(program, program, "nexus 1.2.3");
  EXPECT_THAT(page, HasSubstr(".TH NEXUS 1 \"\" \"nexus 1.2.3\""));
  EXPECT_THAT(page, HasSubstr("\\fBnexus\\-serve\\fR(1)"));
  EXPECT_THAT(page, HasSubstr(".SH EXIT STATUS"));
  EXPECT_EQ(ManPageFile(program), "nexus.1");
  EXPECT_EQ(ManPageFile(program.commands[0]), "nexus-serve.1");
}

}  // namespace
}  // namespace nexus::cli
