#include "nexus/engine/compose_bench.h"

#include "gmock/gmock.h"

#include "nexus/engine/compose_call.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::SampleTool;
using testing::TinyEngine;

class ComposeBenchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TinyEngine::Options options;
    // A token a byte: lists are long here.
    options.context_tokens = 8192;
    options.model.context_train = 8192;
    auto tiny = TinyEngine::Create(options);
    ASSERT_TRUE(tiny.ok()) << tiny.status();
    tiny_ = std::move(tiny).value();
    for (int i = 0; i < 3; ++i) tools_.push_back(SampleTool(i));
  }
  const Engine& engine() { return tiny_->engine(); }

  std::unique_ptr<TinyEngine> tiny_;
  std::vector<schema::ToolSchema> tools_;
};

TEST_F(ComposeBenchTest, AListDecodedAgainIsTheReferenceAndASplicedOneIsNear) {
  ComposeBenchOptions options;
  options.tools = tools_;
  for (int i = 0; i < 3; ++i) {
    ComposeQuery query;
    query.query = "Book number " + std::to_string(i) + ", please.";
    query.gold = {tools_[static_cast<size_t>(i)].name};
    if (i > 0) query.accepted_args = {{"vessel", {"Ada"}}};
    options.queries.push_back(query);
  }
  options.blocks = 3;
  options.n = 3;
  options.samples = 2;
  options.max_argument_tokens = 80;
  for (const char* text :
       {"exact", "generic:100", "alone:0", "given:20+top1"}) {
    ASSERT_OK_AND_ASSIGN(ComposeArm arm, ParseComposeArm(text));
    options.arms.push_back(arm);
  }
  ASSERT_OK_AND_ASSIGN(const ComposeBenchResult result,
                       RunComposeBench(engine(), options));
  EXPECT_EQ(result.lists, 1);
  EXPECT_THAT(result.notes, IsEmpty());
  EXPECT_EQ(result.reference.n, 3);
  EXPECT_EQ(result.reference.n_args, 2);
  ASSERT_EQ(result.arms.size(), 4U);
  for (const ComposeArmResult& arm : result.arms) {
    EXPECT_EQ(arm.n, 3) << arm.name;
    EXPECT_EQ(arm.laid_down, arm.name == "given:20+top1" ? 3 : 1);
  }
  // The same cells in other batches: rounding is left.
  for (const size_t exact : {size_t{0}, size_t{1}}) {
    const ComposeArmResult& arm = result.arms[exact];
    EXPECT_EQ(arm.same, 3) << arm.name;
    EXPECT_DOUBLE_EQ(arm.mcnemar_p, 1);
    EXPECT_LT(arm.kl_mean, 1e-4) << arm.name;
    EXPECT_DOUBLE_EQ(arm.first_top1, 1);
  }
  EXPECT_DOUBLE_EQ(result.arms[1].recompute_share, 1);
  EXPECT_DOUBLE_EQ(result.arms[2].recompute_share, 0);
  EXPECT_GT(result.arms[2].kl_mean, 10 * result.arms[0].kl_mean);
  // A third of the list, and a fifth of the rest.
  EXPECT_NEAR(result.arms[3].recompute_share, 1.0 / 3 + 2.0 / 3 * 0.2, 0.02);
}

// What a draft saves must change nothing.
TEST_F(ComposeBenchTest, ACallIsTheSameWithADraftAndWithout) {
  ASSERT_OK(
      CompileList(engine(), tools_, {.neighbours = ListNeighbours::kNone}));
  ASSERT_OK_AND_ASSIGN(
      const PromptPlan plan,
      engine().planner().PlanListBlock(compile::kDefaultSystemPrompt, tools_));
  ASSERT_OK_AND_ASSIGN(const auto caller,
                       ListCaller::Create(&engine(), tools_, 80));
  ASSERT_OK_AND_ASSIGN(auto exact, Session::Create(&engine()));
  ASSERT_OK(exact->Prepare(plan, {.tier = Tier::kExactPrefix}));
  ASSERT_OK_AND_ASSIGN(auto spliced, Session::Create(&engine()));
  PrepareOptions options;
  options.tier = Tier::kSplice;
  options.policy = kv::RepairPolicy::kNone;
  ASSERT_OK(spliced->Prepare(plan, options));
  int left_the_draft = 0;
  for (const char* question : {"Book it.", "For Ada, two nights!", "Well?"}) {
    ASSERT_OK_AND_ASSIGN(
        const ListCall draft,
        caller->Call(*exact, plan.TokenCount(), question, nullptr, nullptr));
    EXPECT_TRUE(draft.is_aligned);
    EXPECT_TRUE(draft.arguments.is_object()) << draft.arguments_text;
    ASSERT_OK_AND_ASSIGN(
        const ListCall with,
        caller->Call(*spliced, plan.TokenCount(), question, &draft, nullptr));
    ASSERT_OK_AND_ASSIGN(
        const ListCall without,
        caller->Call(*spliced, plan.TokenCount(), question, nullptr, nullptr));
    EXPECT_EQ(with.tool, without.tool);
    EXPECT_EQ(with.arguments_text, without.arguments_text);
    EXPECT_EQ(with.tokens, without.tokens);
    left_the_draft += with.arguments_text != draft.arguments_text ? 1 : 0;
  }
  EXPECT_GT(left_the_draft, 0);
}

TEST(ParseComposeArmTest, ReadsEveryForm) {
  ASSERT_OK_AND_ASSIGN(const ComposeArm plain, ParseComposeArm("given:25"));
  EXPECT_EQ(plain.neighbours, ListNeighbours::kGiven);
  EXPECT_DOUBLE_EQ(plain.share, 0.25);
  EXPECT_FALSE(plain.depends_on_question());
  ASSERT_OK_AND_ASSIGN(const ComposeArm gold, ParseComposeArm("alone:0+gold"));
  EXPECT_TRUE(gold.decode_gold);
  ASSERT_OK_AND_ASSIGN(const ComposeArm top, ParseComposeArm("generic:5+top3"));
  EXPECT_EQ(top.decode_top, 3);
  ASSERT_OK_AND_ASSIGN(const ComposeArm exact, ParseComposeArm("exact"));
  EXPECT_TRUE(exact.is_exact);
}

TEST(ParseComposeArmTest, NamesWhatIsWrong) {
  for (const auto& [text, why] :
       {std::pair("given", "':'"), std::pair("some:3", "recipe"),
        std::pair("given:101", "percentage"), std::pair("given:", "percentage"),
        std::pair("given:-1", "percentage"),
        std::pair("given:5x", "percentage"),
        std::pair("given:5+best", "addition"), std::pair("given:5+top", "topK"),
        std::pair("given:5+top0", "topK")}) {
    const Status status = ParseComposeArm(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(why));
  }
}

}  // namespace
}  // namespace nexus::engine
