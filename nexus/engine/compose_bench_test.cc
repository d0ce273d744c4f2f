#include "nexus/engine/compose_bench.h"

#include "gmock/gmock.h"

#include "nexus/engine/compose_call.h"
#include "nexus/engine/compose_summary.h"
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

  ComposeBenchOptions Options(std::initializer_list<const char*> arms) {
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
    for (const char* text : arms) {
      options.arms.push_back(*ParseComposeArm(text));
    }
    return options;
  }

  static std::vector<std::string> Names(const ComposeBenchOptions& options) {
    std::vector<std::string> names;
    for (const ComposeArm& arm : options.arms) names.push_back(arm.name);
    return names;
  }

  Result<ComposeLog> Open(const ComposeBenchOptions& options,
                          const std::string& path) {
    return OpenComposeLog(FileSystem::Default(), path,
                          ComposeIdentity(engine(), options));
  }

  ScopedTempDir dir_;
  const std::string path_ = dir_.File("trials.jsonl");
  std::unique_ptr<TinyEngine> tiny_;
  std::vector<schema::ToolSchema> tools_;
};

TEST_F(ComposeBenchTest, AListDecodedAgainIsTheReferenceAndASplicedOneIsNear) {
  const ComposeBenchOptions options =
      Options({"exact", "generic:100", "alone:0", "given:20+top1"});
  ASSERT_OK_AND_ASSIGN(ComposeLog log, Open(options, ""));
  ASSERT_OK(RunComposeBench(engine(), options, &log));
  const ComposeBenchResult result =
      SummarizeCompose(log.trials(), 3, Names(options));
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

// Stopped after each call in turn, with a new log each time, the calls are the
// same in the end as those of one run.
TEST_F(ComposeBenchTest, GoesOnFromItsLogAndKeepsWhatIsInterrupted) {
  ComposeBenchOptions options = Options({"exact", "generic:20"});
  std::atomic<bool> cancel = false;
  options.cancel = &cancel;
  ASSERT_OK_AND_ASSIGN(ComposeLog whole, Open(options, ""));
  ASSERT_OK(RunComposeBench(engine(), options, &whole));
  EXPECT_EQ(whole.trials().size(), 9U);

  int stops = 0;
  while (true) {
    ASSERT_OK_AND_ASSIGN(ComposeLog log, Open(options, path_));
    const size_t before = log.trials().size();
    cancel = false;
    // Calls that aren't in the log yet; of the reference's some are asked
    // again.
    options.progress = [&](int, int, const std::string&) {
      cancel = log.trials().size() > before;
    };
    const Status status = RunComposeBench(engine(), options, &log);
    if (status.ok()) break;
    ASSERT_EQ(status.code(), StatusCode::kCancelled) << status;
    EXPECT_GT(log.trials().size(), before);
    ASSERT_LT(++stops, 12);
  }
  EXPECT_GE(stops, 4);
  options.progress = nullptr;
  ASSERT_OK_AND_ASSIGN(ComposeLog log, Open(options, path_));
  ASSERT_EQ(log.trials().size(), whole.trials().size());
  for (const auto& [key, trial] : whole.trials()) {
    const ComposeTrial* other = log.Find(key);
    ASSERT_NE(other, nullptr) << key;
    EXPECT_EQ(other->tool, trial.tool);
    EXPECT_EQ(other->arguments, trial.arguments);
    ASSERT_EQ(other->kl.size(), trial.kl.size());
    for (size_t i = 0; i < trial.kl.size(); ++i) {
      EXPECT_NEAR(other->kl[i], trial.kl[i], 1e-4);
    }
  }
  // Nothing is left to ask, and another arm asks for itself alone.
  int asked = 0;
  options.progress = [&](int, int, const std::string& step) {
    asked += step.starts_with("compile") ? 0 : 1;
  };
  cancel = false;
  ASSERT_OK(RunComposeBench(engine(), options, &log));
  EXPECT_EQ(asked, 0);
  options.arms.push_back(*ParseComposeArm("alone:0"));
  ASSERT_OK(RunComposeBench(engine(), options, &log));
  EXPECT_EQ(asked, 6);  // three of the reference, for its rows
  EXPECT_EQ(log.trials().size(), 12U);
}

TEST_F(ComposeBenchTest, ALogOfAnotherComparisonIsRefusedByWhatDiffers) {
  const ComposeBenchOptions options = Options({"exact"});
  {
    ASSERT_OK_AND_ASSIGN(ComposeLog log, Open(options, path_));
    ASSERT_OK(log.Append({.list = "l", .question = "q", .arm = "prefill"}));
    ASSERT_OK_AND_ASSIGN(const ComposeSetting setting,
                         ComposeSettingOf(log, path_));
    EXPECT_EQ(setting.blocks, 3);
    EXPECT_EQ(setting.samples, 2);
  }
  const auto refusal = [&](const ComposeBenchOptions& other) {
    const Status status = Open(other, path_).status();
    EXPECT_EQ(status.code(), StatusCode::kIncompatible);
    return status.message();
  };
  ComposeBenchOptions other = options;
  other.blocks = 2;
  EXPECT_THAT(refusal(other), HasSubstr("'blocks' is 3 there and 2 here"));
  other = options;
  other.max_argument_tokens = 81;
  EXPECT_THAT(refusal(other), HasSubstr("'max_tokens' is 80 there"));
  other = options;
  other.samples = 1;
  EXPECT_THAT(refusal(other), HasSubstr("'samples' is 2 there"));
  other = options;
  other.queries[0].gold = {"another"};
  EXPECT_THAT(refusal(other), HasSubstr("'tools_and_queries' is"));
  // Arms, n and parts may differ.
  other = Options({"alone:0"});
  other.n = 2;
  other.part = 2;
  other.parts = 2;
  EXPECT_OK(Open(other, path_));
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

}  // namespace
}  // namespace nexus::engine
