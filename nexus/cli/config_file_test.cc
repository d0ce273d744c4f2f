#include "nexus/cli/config_file.h"

#include <sstream>

#include "gmock/gmock.h"

namespace nexus::cli {
namespace {

struct Parsed {
  std::string model;
  int ctx = 0;
  std::vector<std::string> mcp;
  std::string mode;
  bool json = false;
};

// Parses `text` as the configuration of a small app with one subcommand.
Parsed Parse(const std::string& text) {
  Parsed parsed;
  CLI::App app;
  app.config_formatter(std::make_shared<ConfigFile>());
  app.add_option("--model", parsed.model);
  app.add_option("--ctx", parsed.ctx);
  app.add_option("--mcp", parsed.mcp);
  CLI::App* ask = app.add_subcommand("ask");
  ask->add_option("--mode", parsed.mode);
  ask->add_flag("--json", parsed.json);
  std::istringstream input(text);
  app.parse_from_stream(input);
  return parsed;
}

TEST(ConfigFileTest, TomlAndJsonMeanTheSame) {
  for (const char* text :
       {"model = \"smollm2-135m\"\nctx = 2048\nmcp = [\"a.json\", \"b.json\"]\n"
        "[ask]\nmode = \"ir\"\njson = true\n",
        R"({"model": "smollm2-135m", "ctx": 2048, "mcp": ["a.json", "b.json"],
            "ask": {"mode": "ir", "json": true}})"}) {
    const Parsed parsed = Parse(text);
    EXPECT_EQ(parsed.model, "smollm2-135m");
    EXPECT_EQ(parsed.ctx, 2048);
    EXPECT_THAT(parsed.mcp, ::testing::ElementsAre("a.json", "b.json"));
    EXPECT_EQ(parsed.mode, "ir");
    EXPECT_TRUE(parsed.json);
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
    } catch (const CLI::FileError& error) {
      EXPECT_THAT(std::string(error.what()),
                  ::testing::HasSubstr("config file"));
    }
  }
}

}  // namespace
}  // namespace nexus::cli
