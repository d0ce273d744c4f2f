#include "nexus/cli/config_file.h"

#include <cstdlib>
#include <fstream>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::cli {
namespace {

struct Parsed {
  std::string ask_model;
  std::string tools_model;
  int ctx = 0;
  std::vector<std::string> mcp;
  bool json = false;
};

// Parses `text` as the configuration of a small app with two subcommands,
// called with `arguments`.
Parsed Parse(const std::string& text, const std::string& arguments = "ask") {
  Parsed parsed;
  CLI::App app;
  app.config_formatter(std::make_shared<ConfigFile>(&app));
  const ScopedTempDir dir;
  const std::string path = dir.File("config");
  std::ofstream(path) << text;
  app.set_config("--config", path);
  app.allow_config_extras(false);
  CLI::App* ask = app.add_subcommand("ask");
  ask->add_option("--model", parsed.ask_model)->envname("NEXUS_TEST_MODEL");
  ask->add_option("--ctx", parsed.ctx);
  ask->add_option("--mcp", parsed.mcp);
  ask->add_flag("--json", parsed.json);
  CLI::App* tools = app.add_subcommand("tools");
  tools->add_option("--model", parsed.tools_model)->envname("NEXUS_TEST_MODEL");
  app.parse(arguments);
  return parsed;
}

TEST(ConfigFileTest, TomlAndJsonMeanTheSame) {
  for (const char* text :
       {"model = \"a\"\n[ask]\nctx = 2048\nmcp = [\"a.json\", "
        "\"b.json\"]\njson = true\n",
        R"({"model": "a", "ask": {"ctx": 2048, "mcp": ["a.json", "b.json"],
            "json": true}})"}) {
    const Parsed parsed = Parse(text);
    EXPECT_EQ(parsed.ask_model, "a");
    EXPECT_EQ(parsed.ctx, 2048);
    EXPECT_THAT(parsed.mcp, ::testing::ElementsAre("a.json", "b.json"));
    EXPECT_TRUE(parsed.json);
  }
}

TEST(ConfigFileTest, ATopLevelKeyHoldsForAllCommandsAndATableForItsOwn) {
  const std::string text = "model = \"all\"\n[ask]\nmodel = \"mine\"\n";
  EXPECT_EQ(Parse(text, "ask").ask_model, "mine");
  EXPECT_EQ(Parse(text, "tools").tools_model, "all");
}

TEST(ConfigFileTest, FlagsBeatTheEnvironmentAndThatBeatsTheFile) {
  const std::string text = "model = \"file\"\n";
  ASSERT_EQ(::setenv("NEXUS_TEST_MODEL", "env", 1), 0);
  const std::string from_env = Parse(text, "ask").ask_model;
  const std::string from_flag = Parse(text, "ask --model flag").ask_model;
  ::unsetenv("NEXUS_TEST_MODEL");
  EXPECT_EQ(from_env, "env");
  EXPECT_EQ(from_flag, "flag");
  EXPECT_EQ(Parse(text, "ask").ask_model, "file");
}

TEST(ConfigFileTest, AnUnknownKeyIsNamed) {
  try {
    Parse("modle = \"x\"\n");
    ADD_FAILURE() << "accepted an unknown key";
  } catch (const CLI::ConfigError& error) {
    EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr("modle"));
  }
}

TEST(ConfigFileTest, AnEmptyFileSetsNothing) {
  EXPECT_EQ(Parse("").ctx, 0);
  EXPECT_EQ(Parse("  \n# only a comment\n").ctx, 0);
}

TEST(ConfigFileTest, ASyntaxErrorSaysWhere) {
  for (const char* text : {"model = ", "{\"model\": }", "[ask\n"}) {
    try {
      Parse(text);
      ADD_FAILURE() << "accepted " << text;
    } catch (const CLI::ConfigError& error) {
      EXPECT_THAT(std::string(error.what()),
                  ::testing::HasSubstr("config file"));
    }
  }
}

}  // namespace
}  // namespace nexus::cli
