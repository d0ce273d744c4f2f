#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/schema/ir_signature.h"
#include "nexus/schema/schema_frame.h"
#include "nexus/schema/testing/sample_registries.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::schema {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RegistryFileTest : public ::testing::Test {
 protected:
  std::string Write(std::string_view bytes) {
    const std::string path = dir_.File("r.jsonl");
    EXPECT_OK(WriteFileAtomically(FileSystem::Default(), path, bytes));
    return path;
  }

  std::vector<std::string> Ids(std::string_view bytes) {
    auto tools = ReadRegistryFile(Write(bytes));
    EXPECT_OK(tools);
    std::vector<std::string> ids;
    if (tools.ok()) {
      for (const ToolSchema& tool : *tools) ids.push_back(ToolId(tool));
    }
    return ids;
  }

  std::string Error(std::string_view bytes) {
    auto tools = ReadRegistryFile(Write(bytes));
    EXPECT_FALSE(tools.ok());
    return tools.status().message();
  }

  ScopedTempDir dir_;
};

TEST_F(RegistryFileTest, ReadsJsonLinesWithServers) {
  EXPECT_THAT(Ids("{\"name\": \"a\", \"server\": \"s\"}\n{\"name\": \"b\"}"),
              ElementsAre("s/a", "b"));
}

TEST_F(RegistryFileTest, ToleratesByteOrderMarkCrLfAndBlankLines) {
  EXPECT_THAT(
      Ids("\xEF\xBB\xBF\r\n{\"name\": \"a\"}\r\n \r\n{\"name\": \"b\"}\r\n"),
      ElementsAre("a", "b"));
}

TEST_F(RegistryFileTest, ReadsArraysListsAndAnswers) {
  const std::string array = "[\n{\"name\": \"a\"},\n{\"name\": \"b\"}]\n";
  EXPECT_THAT(Ids(array), ElementsAre("a", "b"));
  EXPECT_THAT(Ids("{\"tools\": " + array + "}"), ElementsAre("a", "b"));
  EXPECT_THAT(
      Ids("{\n\"jsonrpc\": \"2.0\", \"result\":\n{\"tools\": " + array + "}}"),
      ElementsAre("a", "b"));
}

TEST_F(RegistryFileTest, ReadsASingleToolOverSeveralLines) {
  EXPECT_THAT(Ids("{\n  \"name\": \"a\"\n}\n"), ElementsAre("a"));
}

TEST_F(RegistryFileTest, AnEmptyFileHasNoTools) {
  EXPECT_THAT(Ids(""), IsEmpty());
  EXPECT_THAT(Ids("\xEF\xBB\xBF\n"), IsEmpty());
}

TEST_F(RegistryFileTest, ErrorsNamePathAndLine) {
  EXPECT_THAT(Error("{\"name\": \"a\"}\n\n{\"name\": }\n"),
              HasSubstr("r.jsonl:3: JSON at byte 9"));
  EXPECT_THAT(Error("{\"name\": \"a\"}\n{\"name\": 4}\n"),
              HasSubstr("r.jsonl:2: \"name\" is a number"));
  EXPECT_THAT(Error("{\"name\": \"a\xFF\"}\n"), HasSubstr("UTF-8"));
  EXPECT_THAT(Error("[{\"name\": \"a\"}, 5]"), HasSubstr("entry 2"));
  EXPECT_THAT(Error("{\n\"tools\": [}"), HasSubstr("r.jsonl: JSON at byte 12"));
  EXPECT_THAT(Error("not json"), HasSubstr("r.jsonl:1: JSON at byte"));
}

TEST_F(RegistryFileTest, MissingFileIsNamed) {
  const auto tools = ReadRegistryFile(dir_.File("none.jsonl"));
  ASSERT_FALSE(tools.ok());
  EXPECT_EQ(tools.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(tools.status().message(), HasSubstr("none.jsonl"));
}

TEST_F(RegistryFileTest, SkipsBadEntriesWhereAsked) {
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "{\"a\":";
  deep += "1" + std::string(200, '}');
  const std::string path = Write(
      "{\"name\": \"a\"}\nnot json\n{\"name\": \"b\", \"parameters\": " + deep +
      "}\n{\"name\": \"c\", \"parameters\": {\"d\": \"" +
      std::string(kMaxSchemaBytes, 'x') +
      "\"}}\n{\"type\": \"web_search\"}\n{\"name\": \"d\"}\n");
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(const auto tools, ReadRegistryFile(path, &skipped));
  EXPECT_THAT(tools, SizeIs(2));
  EXPECT_THAT(skipped,
              ElementsAre(HasSubstr("r.jsonl:2: JSON"),
                          HasSubstr("r.jsonl:3: JSON at byte"),
                          HasSubstr("r.jsonl:4: tool 'c': a schema of 5000008"),
                          HasSubstr("r.jsonl:5: a tool without a \"name\"")));
}

TEST_F(RegistryFileTest, OfTwoToolsOfOneNameTheFirstStays) {
  const std::string path = Write(
      "{\"name\": \"a\", \"description\": \"first\"}\n"
      "{\"name\": \"a\", \"server\": \"s\"}\n"
      "{\"name\": \"a\", \"description\": \"second\"}\n"
      "{\"name\": \"a\", \"server\": \"s\"}\n{\"name\": \"b\"}\n");
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(const auto tools, ReadRegistryFile(path, &skipped));
  ASSERT_THAT(tools, SizeIs(3));
  EXPECT_EQ(tools[0].description, "first");
  EXPECT_EQ(tools[1].server, "s");
  EXPECT_EQ(tools[2].name, "b");
  EXPECT_THAT(skipped,
              ElementsAre(AllOf(HasSubstr("r.jsonl:3: a second tool 'a'"),
                                HasSubstr("r.jsonl:1")),
                          AllOf(HasSubstr("r.jsonl:4: a second tool 's/a'"),
                                HasSubstr("r.jsonl:2"))));
  // A reader that wants everything or an error gets them all: pooled sets for
  // evaluation have hundreds of one name.
  ASSERT_OK_AND_ASSIGN(const auto all, ReadRegistryFile(path));
  EXPECT_THAT(all, SizeIs(5));
}

TEST_F(RegistryFileTest, ReadsTheCommittedSamples) {
  for (const std::string& path : testing::SampleRegistries()) {
    ASSERT_OK_AND_ASSIGN(const auto tools, ReadRegistryFile(path));
    EXPECT_THAT(tools, ::testing::Not(IsEmpty())) << path;
  }
}

// Some 2,700 damaged bytes, the same ones every time: each registry gives tools
// or a message, and what is read renders.
TEST_F(RegistryFileTest, SurvivesRandomDamage) {
  std::string sample;
  for (const std::string& path : testing::SampleRegistries()) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes,
                         FileSystem::Default().ReadFile(path));
    if (sample.empty() || bytes.size() < sample.size()) sample = bytes;
  }
  std::mt19937 random(20240607);
  const auto pick = [&](size_t bound) { return size_t{random()} % bound; };
  const SchemaFrame frame = FrameFor("<|im_start|>", "");
  const std::string path = dir_.File("damaged.jsonl");
  size_t read = 0;
  for (int round = 0; round < 600; ++round) {
    std::string bytes = sample;
    for (size_t i = 0; i < 1 + pick(8); ++i) {
      bytes[pick(bytes.size())] = static_cast<char>(random());
    }
    if (pick(8) == 0) bytes.resize(pick(bytes.size()));
    {
      ASSERT_OK_AND_ASSIGN(auto file,
                           FileSystem::Default().NewWritableFile(path));
      ASSERT_OK(file->Append(bytes.data(), bytes.size()));
      ASSERT_OK(file->Close());
    }
    std::vector<std::string> skipped;
    const auto tools = ReadRegistryFile(path, &skipped);
    if (!tools.ok()) {
      EXPECT_FALSE(tools.status().message().empty());
      continue;
    }
    for (const ToolSchema& tool : *tools) {
      ++read;
      EXPECT_FALSE(CanonicalText(tool).empty());
      EXPECT_OK(ParameterNames(IrSignature(tool)));
    }
    EXPECT_FALSE(RenderBlock(frame, *tools).empty());
  }
  EXPECT_GT(read, 0u);
}

}  // namespace
}  // namespace nexus::schema
