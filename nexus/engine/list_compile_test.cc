#include "nexus/engine/list_compile.h"

#include "gmock/gmock.h"

#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using testing::SampleTool;
using testing::TinyEngine;

using Tools = std::vector<schema::ToolSchema>;

class ListCompileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TinyEngine::Options options;
    options.context_tokens = 8192;
    options.model.context_train = 8192;
    auto tiny = TinyEngine::Create(options);
    ASSERT_TRUE(tiny.ok()) << tiny.status();
    tiny_ = std::move(tiny).value();
    for (int i = 0; i < 3; ++i) tools_.push_back(SampleTool(i));
  }
  const Engine& engine() { return tiny_->engine(); }

  Result<std::shared_ptr<const kv::KvBlock>> Find(
      int tool, const std::string& recipe = "") {
    PlanPiece piece;
    const schema::ToolSchema& schema = tools_[static_cast<size_t>(tool)];
    piece.tool_name = schema::ToolId(schema);
    piece.schema_hash = ToHex(schema::SchemaHash(schema));
    NEXUS_ASSIGN_OR_RETURN(const auto tokens,
                           engine().planner().ListToolTokens(schema));
    return ListBlockFinder(&engine(), recipe).Find(tokens, piece);
  }

  std::unique_ptr<TinyEngine> tiny_;
  Tools tools_;
};

TEST_F(ListCompileTest, EveryRecipeGivesBlocksThatAreFoundByItsName) {
  for (const ListNeighbours neighbours :
       {ListNeighbours::kNone, ListNeighbours::kGeneric,
        ListNeighbours::kGiven}) {
    CompileListOptions options;
    options.neighbours = neighbours;
    options.samples = 2;
    ASSERT_OK_AND_ASSIGN(const compile::CompileReport report,
                         CompileList(engine(), tools_, options));
    EXPECT_EQ(report.compiled, 3);
    EXPECT_TRUE(report.failures.empty());
    const std::string recipe = ListRecipeName(engine(), tools_, options);
    for (int tool = 0; tool < 3; ++tool) {
      ASSERT_OK_AND_ASSIGN(const auto block, Find(tool, recipe));
      EXPECT_EQ(block->metadata().recipe, recipe);
      const int samples = neighbours == ListNeighbours::kNone ? 1 : 2;
      EXPECT_EQ(block->metadata().context_count, samples);
      EXPECT_EQ(block->sensitivity().empty(), samples == 1);
    }
    ASSERT_OK_AND_ASSIGN(const compile::CompileReport again,
                         CompileList(engine(), tools_, options));
    EXPECT_EQ(again.compiled, 0);
    EXPECT_EQ(again.already_present, 3);
  }
}

TEST_F(ListCompileTest, WithoutANameTheBlockOfMostSamplesIsTaken) {
  ASSERT_OK(
      CompileList(engine(), tools_, {.neighbours = ListNeighbours::kNone}));
  ASSERT_OK_AND_ASSIGN(const auto alone, Find(1));
  EXPECT_EQ(alone->metadata().context_count, 1);
  ASSERT_OK(CompileList(engine(), tools_, {.samples = 3}));
  ASSERT_OK_AND_ASSIGN(const auto better, Find(1));
  EXPECT_EQ(better->metadata().context_count, 3);
}

// Three shuffled lists decode each of the tools three times and little else.
TEST_F(ListCompileTest, AShuffledListIsASampleOfEachOfItsTools) {
  for (int i = 3; i < 7; ++i) tools_.push_back(SampleTool(i));
  CompileListOptions options;
  options.neighbours = ListNeighbours::kGiven;
  options.samples = 3;
  options.list_tools = 4;
  size_t tokens = 0;
  for (const schema::ToolSchema& tool : tools_) {
    ASSERT_OK_AND_ASSIGN(const auto ids,
                         engine().planner().ListToolTokens(tool));
    tokens += ids.size();
  }
  ASSERT_OK_AND_ASSIGN(
      const PromptPlan frame,
      engine().planner().PlanListBlock(compile::kDefaultSystemPrompt, tools_));
  const size_t beginning = frame.history.size() + frame.pieces[0].end;
  ASSERT_OK_AND_ASSIGN(const compile::CompileReport report,
                       CompileList(engine(), tools_, options));
  // Seven tools make two lists of at most four.
  EXPECT_EQ(report.tokens_decoded,
            static_cast<int64_t>(3 * (tokens + 2 * beginning)));
}

TEST_F(ListCompileTest, RecipeOfGivenNeighboursNamesTheirSet) {
  CompileListOptions options;
  options.neighbours = ListNeighbours::kGiven;
  const Tools fewer(tools_.begin(), tools_.begin() + 2);
  EXPECT_NE(ListRecipeName(engine(), tools_, options),
            ListRecipeName(engine(), fewer, options));
  options.neighbours = ListNeighbours::kGeneric;
  EXPECT_EQ(ListRecipeName(engine(), tools_, options),
            ListRecipeName(engine(), fewer, options));
}

TEST_F(ListCompileTest, RefusesCountsOutOfRange) {
  const auto code = [&](const CompileListOptions& options) {
    return CompileList(engine(), tools_, options).status().code();
  };
  EXPECT_EQ(code({.samples = 0}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.samples = 9}), StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.list_tools = 1}), StatusCode::kInvalidArgument);
}

TEST_F(ListCompileTest, AnInterruptedRunStoresNothingHalf) {
  const std::atomic<bool> cancel = true;
  CompileListOptions options;
  options.neighbours = ListNeighbours::kGiven;
  options.cancel = &cancel;
  EXPECT_EQ(CompileList(engine(), tools_, options).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(Find(0).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace nexus::engine
