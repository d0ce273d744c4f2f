#include "nexus/gateway/tool_set.h"

#include <set>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/gateway/exposed_name.h"
#include "nexus/route/testing/fake_embedder.h"

namespace nexus::gateway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Lists = std::vector<std::shared_ptr<const UpstreamLists>>;

void AddTool(UpstreamLists* lists, const std::string& server, const Json& raw) {
  auto tool = schema::ParseTool(raw, server, "test");
  NEXUS_CHECK(tool.ok());
  lists->tools.push_back(std::move(tool).value());
  lists->raw_tools.push_back(raw);
}

Json RawTool(const std::string& name, const std::string& description) {
  return {{"name", name},
          {"description", description},
          {"inputSchema",
           {{"type", "object"},
            {"properties", {{"path", {{"type", "string"}}}}},
            {"required", {"path"}}}}};
}

Lists TwoServers() {
  auto files = std::make_shared<UpstreamLists>();
  AddTool(files.get(), "files", RawTool("read", "Reads a file from the disk"));
  AddTool(files.get(), "files", RawTool("delete", "Deletes a file for ever"));
  auto mail = std::make_shared<UpstreamLists>();
  AddTool(mail.get(), "mail", RawTool("read", "Reads a mail message"));
  AddTool(mail.get(), "mail", RawTool("send", "Sends a mail message"));
  return {files, mail};
}

std::shared_ptr<const ToolSet> Build(const Lists& lists,
                                     const ToolSetOptions& options = {}) {
  auto set = ToolSet::Build(lists, nullptr, options);
  NEXUS_CHECK(set.ok());
  return std::move(set).value();
}

TEST(ToolSetTest, NamesTwoToolsOfOneNameApart) {
  const auto set = Build(TwoServers());
  ASSERT_EQ(set->tools().size(), 4u);
  const GatewayTool* read = set->FindExposed("mail__read");
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->schema().description, "Reads a mail message");
  EXPECT_EQ(read->raw()["name"], "mail__read");
  EXPECT_EQ(set->FindExposed("read"), nullptr);
}

TEST(ToolSetTest, ResolvesWhateverSaysWhichToolIsMeant) {
  const auto set = Build(TwoServers());
  for (const auto& [server, name] :
       {std::pair<std::string, std::string>{"mail", "read"},
        {"", "mail__read"},
        {"mail", "mail__read"},
        {"", "mail/read"}}) {
    ASSERT_OK_AND_ASSIGN(const GatewayTool* tool, set->Resolve(server, name));
    EXPECT_EQ(tool->exposed_name(), "mail__read");
  }
  ASSERT_OK_AND_ASSIGN(const GatewayTool* send, set->Resolve("", "send"));
  EXPECT_EQ(send->exposed_name(), "mail__send");
}

TEST(ToolSetTest, AsksWhichOfTwoIsMeant) {
  const auto set = Build(TwoServers());
  const auto tool = set->Resolve("", "read");
  EXPECT_EQ(tool.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(tool.status().message(),
              AllOf(HasSubstr("files__read"), HasSubstr("mail__read")));
}

TEST(ToolSetTest, NamesTheNearestWhenThereIsNone) {
  const auto set = Build(TwoServers());
  const auto tool = set->Resolve("", "send_message");
  EXPECT_EQ(tool.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(tool.status().message(), HasSubstr("mail__send"));
}

TEST(ToolSetTest, LeavesOutWhatTheRulesRefuseAndSaysWhichRule) {
  ToolSetOptions options;
  options.rules.deny = {"*/delete"};
  const auto set = Build(TwoServers(), options);
  EXPECT_EQ(set->tools().size(), 3u);
  EXPECT_EQ(set->FindExposed("files__delete"), nullptr);
  EXPECT_THAT(set->Resolve("files", "delete").status().message(),
              HasSubstr("--deny '*/delete'"));
}

TEST(ToolSetTest, FindsByMeaningAndByWords) {
  route::FakeEmbedder embedder;
  for (llm::Embedder* with : {static_cast<llm::Embedder*>(&embedder),
                              static_cast<llm::Embedder*>(nullptr)}) {
    ASSERT_OK_AND_ASSIGN(const auto set,
                         ToolSet::Build(TwoServers(), with, {}));
    ASSERT_OK_AND_ASSIGN(const auto decision,
                         set->router().Route("sends a message by mail"));
    ASSERT_FALSE(decision.candidates.empty());
    EXPECT_EQ(set->tools()[static_cast<size_t>(decision.candidates[0].tool)]
                  ->exposed_name(),
              "mail__send");
  }
}

TEST(ToolSetTest, ValidatesAgainstTheFullSchema) {
  const auto set = Build(TwoServers());
  const GatewayTool* read = set->FindExposed("files__read");
  ASSERT_NE(read, nullptr);
  EXPECT_OK(read->Validate({{"path", "a"}}));
  EXPECT_THAT(read->Validate({{"path", 7}}).message(), HasSubstr("path"));
  EXPECT_THAT(read->Validate(Json::object()).message(), HasSubstr("path"));
}

TEST(ToolSetTest, LeavesAnUnusableSchemaToItsServer) {
  auto lists = std::make_shared<UpstreamLists>();
  AddTool(lists.get(), "odd",
          {{"name", "tool"},
           {"inputSchema",
            {{"type", "object"},
             {"properties", {{"x", {{"$ref", "http://elsewhere/x.json"}}}}}}}});
  const auto set = Build({lists});
  EXPECT_OK(set->FindExposed("odd__tool")->Validate({{"x", 1}}));
}

TEST(ToolSetTest, TellsOneListFromAnother) {
  const auto one = Build(TwoServers());
  EXPECT_EQ(one->digest(), Build(TwoServers())->digest());
  ToolSetOptions fewer;
  fewer.rules.deny = {"mail/send"};
  EXPECT_NE(one->digest(), Build(TwoServers(), fewer)->digest());
}

TEST(ToolSetTest, HoldsAThousandToolsUnderNamesOfTheirOwn) {
  auto lists = std::make_shared<UpstreamLists>();
  const std::string prefix(70, 'x');
  for (int i = 0; i < 1000; ++i) {
    AddTool(lists.get(), "big", RawTool(prefix + std::to_string(i), "Tool"));
  }
  const auto set = Build({lists});
  std::set<std::string> names;
  for (const auto& tool : set->tools()) {
    EXPECT_LE(tool->exposed_name().size(), kMaxExposedNameBytes);
    names.insert(tool->exposed_name());
  }
  EXPECT_EQ(names.size(), 1000u);
}

}  // namespace
}  // namespace nexus::gateway
