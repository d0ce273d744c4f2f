#include "nexus/engine/call_generator.h"

#include "gmock/gmock.h"

#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using testing::SampleConversation;
using testing::TinyEngine;

schema::ToolSchema ToolOf(const char* parameters) {
  schema::ToolSchema tool;
  tool.name = "probe";
  tool.description = "Takes what it is given.";
  tool.parameters = Json::parse(parameters);
  return tool;
}

// A random-weight model writes noise, so a valid call is the grammar's, the
// closing mode's and the validator's work alone.
class CallGeneratorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto tiny = TinyEngine::Create({.context_tokens = 8192});
    ASSERT_TRUE(tiny.ok()) << tiny.status();
    tiny_ = tiny->release();
  }
  static void TearDownTestSuite() {
    delete tiny_;
    tiny_ = nullptr;
  }

  Result<GeneratedCall> Generate(const schema::ToolSchema& tool,
                                 const CallOptions& options) {
    Engine& engine = tiny_->engine();
    NEXUS_ASSIGN_OR_RETURN(session_, Session::Create(&engine));
    NEXUS_ASSIGN_OR_RETURN(plan_, engine.planner().PlanCall(
                                      SampleConversation("Do it."), {&tool, 1},
                                      ArgumentMode::kSchema, tool.name));
    NEXUS_RETURN_IF_ERROR(session_->Prepare(plan_, {}).status());
    CallGenerator generator(&engine.model());
    return generator.Generate(*session_, plan_, engine.planner(), tool,
                              options);
  }
  // What the session holds behind the plan.
  std::string Decoded() const {
    return tiny_->engine().model().Detokenize(
        session_->tokens().subspan(plan_.TokenCount()));
  }

  static TinyEngine* tiny_;
  std::unique_ptr<Session> session_;
  PromptPlan plan_;
};

TinyEngine* CallGeneratorTest::tiny_ = nullptr;

constexpr const char* kOrdinarySchemas[] = {
    R"({"type":"object","properties":{}})",
    R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})",
    R"({"type":"object","properties":{"n":{"type":"integer","minimum":3,"maximum":7}},"required":["n"]})",
    R"({"type":"object","properties":{"c":{"enum":["red","green"]},"d":{"const":4}},"required":["c","d"]})",
    R"({"type":"object","properties":{"xs":{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":3}},"required":["xs"]})",
    R"({"type":"object","properties":{"o":{"type":"object","properties":{"p":{"type":"number"}},"required":["p"]}},"required":["o"]})",
    R"({"type":"object","properties":{"t":{"type":"string","format":"date"}},"required":["t"]})",
    R"({"type":"object","properties":{"u":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["u"]})",
};

TEST_F(CallGeneratorTest, NoiseUnderOrdinarySchemasIsAlwaysAValidCall) {
  for (const char* schema : kOrdinarySchemas) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      auto call =
          Generate(ToolOf(schema),
                   {.max_tokens = 160, .temperature = 1.0F, .seed = seed});
      ASSERT_TRUE(call.ok()) << schema << ": " << call.status();
      EXPECT_TRUE(call->valid) << schema << "\n"
                               << call->text << "\n"
                               << call->invalid_reason;
      EXPECT_TRUE(call->relaxed.empty())
          << schema << ::testing::PrintToString(call->relaxed);
    }
  }
}

// What llama.cpp's converter refuses or blows up on: relaxed for this tool, and
// what the model then writes is checked, not trusted.
constexpr const char* kHardSchemas[] = {
    R"({"$defs":{"node":{"type":"object","properties":{"next":{"$ref":"#/$defs/node"}}}},"type":"object","properties":{"list":{"$ref":"#/$defs/node"}}})",
    R"({"type":"object","properties":{"s":{"type":"string","pattern":"^(?=.*x)[a-z]+$"}},"required":["s"]})",
    R"({"type":"object","properties":{"s":{"type":"string","maxLength":10000}},"required":["s"]})",
    R"({"type":"object","properties":{"n":{"type":"integer","multipleOf":7}},"required":["n"]})",
    R"({"type":"object","properties":{"xs":{"type":"array","uniqueItems":true,"items":{"type":"integer"}}},"required":["xs"]})",
    R"({"type":"object","properties":{"m":{"type":"array","maxItems":900,"items":{"type":"array","maxItems":900,"items":{"type":"string","maxLength":900}}}},"required":["m"]})",
    R"({"type":"object","properties":{"x":{"anyOf":[{"minLength":2},{"maximum":3}]}},"required":["x"]})",
    R"({"type":"object","properties":{"x":{"$ref":"#/properties/x"}}})",
    R"({"type":"object","properties":{"x":{"type":"string","format":"no-such-format"}},"required":["x"]})",
};

TEST_F(CallGeneratorTest, HardSchemasStillGiveJsonAndAnHonestVerdict) {
  for (const char* schema : kHardSchemas) {
    auto call = Generate(ToolOf(schema),
                         {.max_tokens = 128, .temperature = 1.0F, .seed = 7});
    ASSERT_TRUE(call.ok()) << schema << ": " << call.status();
    EXPECT_TRUE(call->arguments.is_object()) << schema << "\n" << call->text;
    if (!call->valid) {
      EXPECT_FALSE(call->invalid_reason.empty()) << schema;
    }
  }
}

TEST_F(CallGeneratorTest, SameSeedSameCall) {
  const schema::ToolSchema tool = testing::SampleTool();
  const CallOptions options = {.temperature = 0.9F, .seed = 11};
  ASSERT_OK_AND_ASSIGN(const GeneratedCall first, Generate(tool, options));
  ASSERT_OK_AND_ASSIGN(const GeneratedCall second, Generate(tool, options));
  EXPECT_EQ(first.text, second.text);
}

TEST_F(CallGeneratorTest, AShortLimitClosesTheObjectInsteadOfCuttingIt) {
  const schema::ToolSchema tool = ToolOf(
      R"({"type":"object","properties":{"story":{"type":"string"},"more":{"type":"array","items":{"type":"string"}}},"required":["story","more"]})");
  auto call =
      Generate(tool, {.max_tokens = 24, .temperature = 1.5F, .seed = 3});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->closed_at_limit);
  EXPECT_TRUE(call->valid) << call->text << "\n" << call->invalid_reason;
}

TEST_F(CallGeneratorTest, AFullContextGivesAnInvalidCallNotAnError) {
  Engine& engine = tiny_->engine();
  const schema::ToolSchema tool = ToolOf(
      R"({"type":"object","properties":{"story":{"type":"string"}},"required":["story"]})");
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine, 512));
  // As long as leaves a handful of cells behind the preamble.
  std::string question;
  PromptPlan plan;
  for (;; question += "please ") {
    ASSERT_OK_AND_ASSIGN(
        PromptPlan longer,
        engine.planner().PlanCall(SampleConversation(question), {&tool, 1},
                                  ArgumentMode::kSchema, tool.name));
    if (static_cast<int>(longer.TokenCount()) > session->room() - 8) break;
    plan = std::move(longer);
  }
  ASSERT_OK(session->Prepare(plan, {}));
  CallGenerator generator(&engine.model());
  auto call = generator.Generate(*session, plan, engine.planner(), tool,
                                 {.temperature = 1.0F, .seed = 3});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->valid || !call->invalid_reason.empty());
  EXPECT_GE(session->room(), 0);
}

TEST_F(CallGeneratorTest, NothingCountsAsValidWithoutAValidator) {
  // A remote reference can't be resolved, so there is nothing to check against.
  auto call = Generate(
      ToolOf(R"({"type":"object","properties":{"x":{"$ref":"http://a.b/c"}}})"),
      {.max_tokens = 64, .temperature = 1.0F, .seed = 2});
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_FALSE(call->valid);
  EXPECT_THAT(call->invalid_reason, ::testing::HasSubstr("not validated"));
}

// Its cell would be decoded while the caller waits, and nothing is sampled from
// it.
TEST_F(CallGeneratorTest, TheLastTokenIsLeftToTheNextTurn) {
  ASSERT_OK_AND_ASSIGN(const GeneratedCall call,
                       Generate(testing::SampleTool(), {.seed = 3}));
  ASSERT_EQ(call.repair_rounds, 0);
  EXPECT_EQ(session_->tokens().size() - plan_.TokenCount(),
            static_cast<size_t>(call.sampled_tokens) - 1);
}

TEST_F(CallGeneratorTest, ARepairRoundSeesTheWholeOfTheFirst) {
  const std::string& suffix = tiny_->engine().planner().frame().call_suffix;
  int repaired = 0;
  for (const char* schema : kHardSchemas) {
    ASSERT_OK_AND_ASSIGN(
        const GeneratedCall call,
        Generate(ToolOf(schema),
                 {.max_tokens = 128, .temperature = 1.0F, .seed = 7}));
    if (call.repair_rounds == 0) continue;
    ++repaired;
    const std::string decoded = Decoded();
    const size_t end = decoded.find(suffix);
    ASSERT_NE(end, std::string::npos) << decoded;
    EXPECT_OK(ParseJson(decoded.substr(0, end), "first round").status());
  }
  EXPECT_GT(repaired, 0);
}

TEST_F(CallGeneratorTest, StreamsExactlyWhatItReturns) {
  std::string streamed;
  const schema::ToolSchema tool = testing::SampleTool();
  CallOptions options = {.temperature = 0.5F, .seed = 5};
  options.on_text = [&](std::string_view piece) { streamed += piece; };
  ASSERT_OK_AND_ASSIGN(const GeneratedCall call, Generate(tool, options));
  if (call.repair_rounds == 0) {
    EXPECT_EQ(streamed, call.text);
  } else {
    EXPECT_TRUE(streamed.ends_with(call.text));
  }
}

}  // namespace
}  // namespace nexus::engine
