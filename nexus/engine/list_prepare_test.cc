#include "nexus/engine/list_prepare.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"

#include "nexus/base/hash.h"
#include "nexus/engine/list_compile.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::SampleConversation;
using testing::SampleTool;
using testing::TinyEngine;

using Tools = std::vector<schema::ToolSchema>;

std::string LogitsHash(const Session& session) {
  const std::span<const float> row = session.logits();
  return ToHex(Sha256Of(std::string_view(
      reinterpret_cast<const char*>(row.data()), row.size_bytes())));
}

Tools ToolsOf(std::initializer_list<int> seeds) {
  Tools tools;
  for (const int seed : seeds) tools.push_back(SampleTool(seed));
  return tools;
}

struct Setting {
  llm::testing::TinyArch arch;
  bool flash_attention;
};

class ListPrepareTest : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    TinyEngine::Options options;
    options.model.arch = GetParam().arch;
    options.flash_attention = GetParam().flash_attention;
    // A token a byte: lists are long here.
    options.context_tokens = 8192;
    options.model.context_train = 8192;
    auto tiny = TinyEngine::Create(options);
    ASSERT_TRUE(tiny.ok()) << tiny.status();
    tiny_ = std::move(tiny).value();
  }

  Engine& engine() { return tiny_->engine(); }

  Result<PromptPlan> Plan(const Tools& tools,
                          const std::string& question = "Book it, please.") {
    return engine().planner().PlanList(SampleConversation(question), tools, "");
  }

  // Starts anew with a profile of these rows.
  Status UseComposition(std::vector<CompositionRow> rows) {
    RepairProfile profile;
    profile.model = "Tiny";
    profile.made = "2026-12-01";
    profile.fingerprint = engine().fingerprint(kv::BlockKind::kSplice);
    profile.compile_contexts = 2;
    profile.noise_kl = 0.0002;
    profile.composition = std::move(rows);
    FileSystem& fs = FileSystem::Default();
    NEXUS_RETURN_IF_ERROR(fs.CreateDirs(tiny_->profile_dir()));
    NEXUS_RETURN_IF_ERROR(
        WriteFileAtomically(fs, tiny_->profile_dir() + "/tiny.json",
                            DumpJson(ProfileToJson(profile))));
    NEXUS_RETURN_IF_ERROR(tiny_->Restart());
    return engine().profile_status();
  }

  std::unique_ptr<TinyEngine> tiny_;
};

TEST_P(ListPrepareTest, AToolsIdsDoNotDependOnItsNeighbours) {
  ASSERT_OK_AND_ASSIGN(const auto alone,
                       engine().planner().ListToolTokens(SampleTool(1)));
  for (const Tools& tools :
       {ToolsOf({1}), ToolsOf({0, 1}), ToolsOf({2, 1, 0})}) {
    ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
    int found = 0;
    size_t next = 0;
    for (const PlanPiece& piece : plan.pieces) {
      EXPECT_EQ(piece.begin, next);
      next = piece.end;
      if (piece.tool_name != schema::ToolId(SampleTool(1))) continue;
      ++found;
      EXPECT_EQ(alone, std::vector<llm::Token>(
                           plan.block.begin() + static_cast<int>(piece.begin),
                           plan.block.begin() + static_cast<int>(piece.end)));
    }
    EXPECT_EQ(found, 1);
    EXPECT_EQ(next, plan.block.size());
  }
}

TEST_P(ListPrepareTest, TheListReadsAsTheFrameWouldRenderIt) {
  const Tools tools = ToolsOf({0, 1, 2});
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
  const schema::SchemaFrame& frame = engine().planner().frame();
  std::string expected = schema::RenderBlock(frame, tools);
  if (frame.block_prefix.starts_with(frame.head_prefix)) {
    expected = "\n\n" + expected.substr(frame.head_prefix.size());
  }
  EXPECT_EQ(engine().model().Detokenize(plan.block), expected);
  EXPECT_THAT(engine().model().Detokenize(plan.user),
              HasSubstr("is the quay free?"));
}

TEST_P(ListPrepareTest, AStoredListRestoresTheVeryBits) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(ToolsOf({0, 1, 2})));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport made, session->Prepare(plan, {}));
  EXPECT_EQ(made.tier, Tier::kPrefill);
  EXPECT_THAT(made.reasons, Contains(HasSubstr("5 of 5 pieces")));
  const std::string expected = LogitsHash(*session);
  ASSERT_OK(StoreList(*session, plan));

  ASSERT_OK(tiny_->Restart());
  ASSERT_OK_AND_ASSIGN(auto restored, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, restored->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kExactVariant)
      << ::testing::PrintToString(report.reasons);
  EXPECT_EQ(report.restored_tokens,
            static_cast<int>(plan.history.size() + plan.block.size()));
  EXPECT_EQ(report.prefilled_tokens,
            static_cast<int>(plan.user.size() + plan.preamble.size()));
  EXPECT_EQ(restored->exact_count(), plan.TokenCount());
  EXPECT_EQ(LogitsHash(*restored), expected);
}

// The trie: cells of two other lists make up a third one's beginning.
TEST_P(ListPrepareTest, AChangedListDecodesOnlyWhatStandsBehindTheChange) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan wanted, Plan(ToolsOf({0, 1, 3, 4})));
  ASSERT_OK_AND_ASSIGN(auto fresh, Session::Create(&engine()));
  ASSERT_OK(fresh->Prepare(wanted, {}));
  const std::string expected = LogitsHash(*fresh);

  ASSERT_OK_AND_ASSIGN(const PromptPlan before, Plan(ToolsOf({0, 1, 2, 4})));
  ASSERT_OK_AND_ASSIGN(auto first, Session::Create(&engine()));
  ASSERT_OK(first->Prepare(before, {}));
  ASSERT_OK(StoreList(*first, before));

  ASSERT_OK_AND_ASSIGN(auto second, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, second->Prepare(wanted, {}));
  const PlanPiece& last_common = wanted.pieces[2];
  EXPECT_EQ(report.restored_tokens,
            static_cast<int>(wanted.history.size() + last_common.end));
  EXPECT_EQ(report.restored_tokens + report.prefilled_tokens,
            static_cast<int>(wanted.TokenCount()));
  EXPECT_EQ(LogitsHash(*second), expected);
}

TEST_P(ListPrepareTest, ListsThatBeginAlikeShareTheirFiles) {
  const auto files = [&] {
    int count = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(tiny_->store_dir())) {
      count += entry.path().extension() == ".nxb" ? 1 : 0;
    }
    return count;
  };
  for (const auto& [tools, expected] :
       {std::pair(ToolsOf({0, 1}), 4),     // prefix, two tools, suffix
        std::pair(ToolsOf({0, 1, 2}), 6),  // and a tool and a suffix
        std::pair(ToolsOf({0, 1, 2}), 6)}) {
    ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
    ASSERT_OK(session->Prepare(plan, {}));
    ASSERT_OK(StoreList(*session, plan));
    EXPECT_EQ(files(), expected);
  }
}

TEST_P(ListPrepareTest, ASessionReusesTheListForTheNextQuestion) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan first, Plan(ToolsOf({0, 1})));
  ASSERT_OK_AND_ASSIGN(const PromptPlan second,
                       Plan(ToolsOf({0, 1}), "And the next?"));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(first, {}));
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(second, {}));
  EXPECT_EQ(report.tier, Tier::kExactPrefix);
  EXPECT_GE(report.reused_tokens,
            static_cast<int>(first.history.size() + first.block.size()));
  EXPECT_TRUE(report.reasons.empty());
}

TEST_P(ListPrepareTest, AMissingPieceInTheMiddleIsDecodedAndTheRestRestored) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(ToolsOf({0, 1, 2})));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(plan, {}));
  const std::string expected = LogitsHash(*session);
  ASSERT_OK(StoreList(*session, plan));
  const std::vector<llm::Token> all = AllTokens(plan);
  const PlanPiece& piece = plan.pieces[2];
  const size_t begin = plan.history.size() + piece.begin;
  const std::span<const llm::Token> tokens(all);
  ASSERT_OK(engine().store()->Remove(engine().VariantKey(
      tokens.first(begin), tokens.subspan(begin, piece.end - piece.begin))));

  ASSERT_OK_AND_ASSIGN(auto other, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, other->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_THAT(report.reasons, Contains(HasSubstr("1 of 5 pieces")));
  EXPECT_EQ(report.prefilled_tokens,
            static_cast<int>(piece.end - piece.begin + plan.user.size() +
                             plan.preamble.size()));
  EXPECT_EQ(LogitsHash(*other), expected);
}

// What a profile allows: lists of up to three tools of this recipe.
CompositionRow MeasuredRow(const Engine& engine,
                           const CompileListOptions& recipe) {
  CompositionRow row;
  row.blocks = 3;
  row.recipe = ListRecipeName(engine, {}, recipe);
  row.max_tokens = 8000;
  row.tool_choice = {.prefill = 0.8, .splice = 0.797, .n = 1000};
  row.args_exact = {.prefill = 0.5, .splice = 0.5, .n = 1000};
  row.kl_mean = 0.01;
  JudgeComposition({}, &row);
  EXPECT_TRUE(row.allowed) << row.reason;
  return row;
}

TEST_P(ListPrepareTest, AutoSplicesNothingThatWasntMeasured) {
  const Tools tools = ToolsOf({0, 1, 2});
  ASSERT_OK(CompileList(engine(), tools, {.samples = 2}));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
  for (const bool has_profile : {false, true}) {
    if (has_profile) ASSERT_OK(UseComposition({}));
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
    ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
    EXPECT_EQ(report.tier, Tier::kPrefill);
    EXPECT_EQ(report.spliced_tokens + report.recomputed_tokens, 0);
    EXPECT_EQ(session->exact_count(), plan.TokenCount());
    EXPECT_THAT(report.reasons, Contains(HasSubstr("aren't measured")));
  }
}

TEST_P(ListPrepareTest, AutoSplicesWhatTheProfileAllows) {
  const Tools tools = ToolsOf({0, 1, 2});
  const CompileListOptions recipe = {.samples = 2};
  ASSERT_OK(CompileList(engine(), tools, recipe));
  ASSERT_OK(UseComposition({MeasuredRow(engine(), recipe)}));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
  ASSERT_OK_AND_ASSIGN(auto open, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, open->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kSplice)
      << ::testing::PrintToString(report.reasons);
  EXPECT_EQ(report.policy, "none");
  EXPECT_EQ(report.recomputed_tokens, 0);
  const std::span<const llm::Token> held = open->tokens();
  EXPECT_EQ(std::vector<llm::Token>(held.begin(), held.end()), AllTokens(plan));
  // Nothing from the first block on is exact.
  EXPECT_EQ(open->exact_count(), plan.history.size() + plan.pieces[0].end);
  ASSERT_OK(StoreList(*open, plan));
  ASSERT_OK_AND_ASSIGN(auto after, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport restored, after->Prepare(plan, {}));
  EXPECT_LE(restored.restored_tokens,
            static_cast<int>(plan.history.size() + plan.pieces[0].end));
}

TEST_P(ListPrepareTest, TheProfilesShareIsDecodedAgain) {
  const Tools tools = ToolsOf({0, 1});
  const CompileListOptions recipe = {.samples = 2};
  ASSERT_OK(CompileList(engine(), tools, recipe));
  CompositionRow row = MeasuredRow(engine(), recipe);
  row.share = 0.25;
  ASSERT_OK(UseComposition({row}));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  // A caller's own shares and recipe are for a splice that it asks for.
  PrepareOptions options;
  options.block_shares = {0, 0};
  options.list_recipe = "another";
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       session->Prepare(plan, options));
  EXPECT_EQ(report.tier, Tier::kSplice)
      << ::testing::PrintToString(report.reasons);
  EXPECT_NEAR(report.recompute_share, 0.25, 0.03);
}

// Each with the limit that it breaks.
TEST_P(ListPrepareTest, AutoDecodesWhatTheProfileDoesntAllow) {
  const Tools tools = ToolsOf({0, 1, 2});
  const CompileListOptions recipe = {.samples = 2};
  ASSERT_OK(CompileList(engine(), tools, recipe));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
  const CompositionRow measured = MeasuredRow(engine(), recipe);
  CompositionRow shorter = measured;
  shorter.blocks = 2;
  CompositionRow small = measured;
  small.max_tokens = 100;
  CompositionRow few = measured;
  few.tool_choice.n = 400;
  CompositionRow worse = measured;
  worse.args_exact.splice = 0.48;
  CompositionRow of_another_recipe = measured;
  of_another_recipe.recipe = ListRecipeName(engine(), {}, {.samples = 3});
  for (const auto& [row, why] :
       {std::pair(shorter, "up to 2 tools, this list has 3"),
        std::pair(small, "up to 100 tokens, this list ends at"),
        std::pair(few, "tool choice asked of 400 questions, 1000 are needed"),
        std::pair(worse, "exact arguments 2.0 points below"),
        std::pair(of_another_recipe, "compiled for lists")}) {
    CompositionRow judged = row;
    JudgeComposition({}, &judged);
    ASSERT_OK(UseComposition({judged}));
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
    ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
    EXPECT_EQ(report.tier, Tier::kPrefill) << why;
    EXPECT_EQ(session->exact_count(), plan.TokenCount()) << why;
    EXPECT_THAT(report.reasons, Contains(HasSubstr(why)));
  }
  ASSERT_OK(UseComposition({measured}));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport strict,
                       session->Prepare(plan, {.budget = Budget::kBalanced}));
  EXPECT_EQ(strict.tier, Tier::kPrefill);
  EXPECT_THAT(strict.reasons, Contains(HasSubstr("the balanced budget")));
}

TEST_P(ListPrepareTest, AComposedListStaysNearPrefillAndABudgetBringsItNearer) {
  const Tools tools = ToolsOf({0, 1, 2});
  ASSERT_OK(CompileList(engine(), tools, {.samples = 3}));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(tools));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(plan, {.tier = Tier::kPrefill}));
  const std::vector<float> reference(session->logits().begin(),
                                     session->logits().end());
  const auto distance = [&](const std::vector<double>& shares) {
    auto other = Session::Create(&engine());
    PrepareOptions options;
    options.tier = Tier::kSplice;
    options.policy = kv::RepairPolicy::kSensitivity;
    options.block_shares = shares;
    const auto report = (*other)->Prepare(plan, options);
    EXPECT_OK(report);
    EXPECT_EQ(report->tier, Tier::kSplice);
    double sum = 0;
    for (size_t i = 0; i < reference.size(); ++i) {
      const double d =
          static_cast<double>(reference[i] - (*other)->logits()[i]);
      sum += d * d;
    }
    return std::sqrt(sum);
  };
  double norm = 0;
  for (const float x : reference) norm += static_cast<double>(x * x);
  const double pure = distance({0, 0, 0});
  const double all = distance({1, 1, 1});
  EXPECT_LT(pure, std::sqrt(norm) / 2);
  EXPECT_LT(all, pure);
  // Every token was decoded: what is left is the batches' rounding.
  EXPECT_LT(all, 0.02 * std::sqrt(norm));
}

TEST_P(ListPrepareTest, AToolWithoutABlockIsDecodedAndNamed) {
  ASSERT_OK(CompileList(engine(), ToolsOf({0}), {.samples = 2}));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(ToolsOf({0, 7})));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  PrepareOptions options;
  options.tier = Tier::kSplice;
  options.policy = kv::RepairPolicy::kNone;
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       session->Prepare(plan, options));
  EXPECT_EQ(report.tier, Tier::kSplice);
  EXPECT_THAT(report.reasons, Contains(HasSubstr("book_berth_7")));
  EXPECT_EQ(report.spliced_tokens,
            static_cast<int>(plan.pieces[1].end - plan.pieces[1].begin));
}

TEST_P(ListPrepareTest, RefusesWhatDoesNotFit) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(ToolsOf({0, 1})));
  ASSERT_OK_AND_ASSIGN(auto small, Session::Create(&engine(), 256));
  EXPECT_EQ(small->Prepare(plan, {}).status().code(),
            StatusCode::kResourceExhausted);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  PrepareOptions options;
  options.tier = Tier::kSplice;
  options.block_shares = {0.5};
  EXPECT_EQ(session->Prepare(plan, options).status().code(),
            StatusCode::kInvalidArgument);
  PromptPlan broken = plan;
  broken.pieces[1].end -= 1;
  EXPECT_EQ(session->Prepare(broken, {}).status().code(),
            StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ListPrepareTest,
    ::testing::Values(Setting{llm::testing::TinyArch::kLlama, false},
                      Setting{llm::testing::TinyArch::kQwen2, false},
                      Setting{llm::testing::TinyArch::kQwen2, true}));

}  // namespace
}  // namespace nexus::engine
