#include "nexus/engine/testing/family_conformance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/compile/block_accumulator.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/engine/testing/tiny_engine.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/block_writer.h"
#include "nexus/kv/recompute_plan.h"
#include "nexus/kv/splicer.h"
#include "nexus/llm/testing/kv_test_util.h"

namespace nexus::engine::testing {
namespace {

using llm::KvRows;
using llm::Token;
using llm::testing::MoveRows;
using llm::testing::RowsToFloat;
using llm::testing::SomeTokens;
using llm::testing::TinyArch;
using llm::testing::TinyScaling;

constexpr int kBefore = 60;  // tokens before the block where it is compiled
constexpr int kBlock = 96;   // longer than the windows of 64
constexpr int kOther = 150;  // tokens before it elsewhere
constexpr int kShift = 400;  // how far a whole text is moved
constexpr int kQuestion = 11;

// A context with its access, as a session has them.
struct Place {
  std::unique_ptr<llm::Context> context;
  std::unique_ptr<llm::KvAccess> access;

  static Result<Place> Create(const Engine& engine) {
    Place place;
    NEXUS_ASSIGN_OR_RETURN(place.context, engine.NewContext(1024));
    NEXUS_ASSIGN_OR_RETURN(place.access,
                           llm::KvAccess::Create(place.context.get()));
    return place;
  }
  // One batch at the end of sequence 0; the last row of logits.
  Result<std::vector<float>> Decode(const std::vector<Token>& tokens) {
    NEXUS_RETURN_IF_ERROR(context->Decode(tokens, context->PositionEnd(0), 0,
                                          llm::Logits::kLast));
    return LastRow();
  }
  std::vector<float> LastRow() const {
    const std::span<const float> row = context->LogitsRow(0);
    return {row.begin(), row.end()};
  }
};

double Distance(llm::KvType type, const std::vector<uint8_t>& expected,
                const std::vector<uint8_t>& actual) {
  const std::vector<float> x = RowsToFloat(type, expected);
  const std::vector<float> y = RowsToFloat(type, actual);
  double square = 0;
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    square += double{x[i]} * double{x[i]};
    worst = std::max(worst, std::fabs(double{x[i]} - double{y[i]}));
  }
  return worst / std::sqrt(square / static_cast<double>(x.size()));
}

double LayerDistance(const llm::KvLayout& layout, const KvRows& expected,
                     const KvRows& actual, size_t layer) {
  const llm::KvLayerShape& shape = layout.layers[layer];
  return std::max(Distance(shape.k_type, expected.k[layer], actual.k[layer]),
                  Distance(shape.v_type, expected.v[layer], actual.v[layer]));
}

double WorstDistance(const llm::KvLayout& layout, const KvRows& expected,
                     const KvRows& actual) {
  double worst = 0;
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    worst = std::max(worst, LayerDistance(layout, expected, actual, i));
  }
  return worst;
}

double LogitDistance(const std::vector<float>& expected,
                     const std::vector<float>& actual) {
  double worst = 0;
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::fabs(double{expected[i]} - double{actual[i]}));
    largest = std::max(largest, std::fabs(double{expected[i]}));
  }
  return worst / largest;
}

// The layer that comes first in the model. Window layers lie behind the others
// in the layout, and in the families that have them the first layer is one.
size_t FirstLayer(const llm::KvLayout& layout) {
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    if (layout.layers[i].sliding_window) return i;
  }
  return 0;
}

class Experiment {
 public:
  explicit Experiment(const Engine& engine) : engine_(engine) {}

  Status Run(FamilyReport* report);

 private:
  Status Compile();
  Status BehindOtherText(FamilyReport* report);
  Status BehindMovedText(FamilyReport* report);
  Status BehindSameText(FamilyReport* report);

  // The block's cells as a file, mapped.
  Result<std::shared_ptr<const kv::KvBlock>> StoreBlock(kv::BlockKind kind,
                                                        const KvRows& rows);
  Status Lay(Place& place, const kv::KvBlock& block, kv::RepairPolicy policy,
             double share = 0) const;

  const Engine& engine_;
  ScopedTempDir dir_;
  const std::vector<Token> before_ = SomeTokens(kBefore, 3);
  const std::vector<Token> other_ = SomeTokens(kOther, 5);
  const std::vector<Token> block_ = SomeTokens(kBlock, 7);
  const std::vector<Token> question_ = SomeTokens(kQuestion, 11);
  KvRows before_rows_;  // of the text before, where the block is compiled
  KvRows rows_;         // of the block there
  std::vector<float> question_logits_;
  std::shared_ptr<const kv::KvBlock> compiled_;
  std::shared_ptr<const kv::KvBlock> variant_;
};

Result<std::shared_ptr<const kv::KvBlock>> Experiment::StoreBlock(
    kv::BlockKind kind, const KvRows& rows) {
  kv::BlockContents contents;
  contents.metadata.kind = kind;
  contents.tokens = block_;
  contents.layers = engine_.kv_layout().layers;
  contents.k = rows.k;
  contents.v = rows.v;
  compile::AccumulatedBlock accumulated;
  if (kind == kv::BlockKind::kVariant) {
    contents.metadata.position = rows.first_position;
  } else {
    compile::BlockAccumulator mean(engine_.kv_layout(), engine_.rope(), kBlock);
    NEXUS_RETURN_IF_ERROR(mean.Add(rows));
    NEXUS_ASSIGN_OR_RETURN(accumulated, mean.Finish());
    contents.k = accumulated.k;
    contents.v = accumulated.v;
  }
  const std::string path =
      dir_.File(std::string(kv::BlockKindName(kind)) + ".nxb");
  NEXUS_RETURN_IF_ERROR(
      kv::WriteBlockFile(FileSystem::Default(), path, contents).status());
  return kv::KvBlock::Open(path);
}

Status Experiment::Lay(Place& place, const kv::KvBlock& block,
                       kv::RepairPolicy policy, double share) const {
  NEXUS_ASSIGN_OR_RETURN(
      const kv::RecomputePlan plan,
      kv::PlanRecompute(
          {.policy = policy, .token_count = kBlock, .share = share}));
  return kv::Splice(*place.context, *place.access, engine_.rope(), block, plan,
                    {.position = place.context->PositionEnd(0),
                     .logits_for_last = policy == kv::RepairPolicy::kFull})
      .status();
}

Status Experiment::Compile() {
  NEXUS_ASSIGN_OR_RETURN(Place maker, Place::Create(engine_));
  NEXUS_RETURN_IF_ERROR(maker.Decode(before_).status());
  NEXUS_RETURN_IF_ERROR(maker.Decode(block_).status());
  NEXUS_ASSIGN_OR_RETURN(before_rows_, maker.access->Read(0, 0, kBefore));
  NEXUS_ASSIGN_OR_RETURN(rows_,
                         maker.access->Read(0, kBefore, kBefore + kBlock));
  NEXUS_ASSIGN_OR_RETURN(question_logits_, maker.Decode(question_));
  NEXUS_ASSIGN_OR_RETURN(compiled_, StoreBlock(kv::BlockKind::kSplice, rows_));
  NEXUS_ASSIGN_OR_RETURN(variant_, StoreBlock(kv::BlockKind::kVariant, rows_));
  return Status::Ok();
}

Status Experiment::BehindOtherText(FamilyReport* report) {
  NEXUS_ASSIGN_OR_RETURN(Place prefill, Place::Create(engine_));
  NEXUS_RETURN_IF_ERROR(prefill.Decode(other_).status());
  NEXUS_ASSIGN_OR_RETURN(const std::vector<float> expected,
                         prefill.Decode(block_));
  NEXUS_ASSIGN_OR_RETURN(const KvRows there,
                         prefill.access->Read(0, kOther, kOther + kBlock));

  NEXUS_ASSIGN_OR_RETURN(Place spliced, Place::Create(engine_));
  NEXUS_RETURN_IF_ERROR(spliced.Decode(other_).status());
  NEXUS_RETURN_IF_ERROR(Lay(spliced, *compiled_, kv::RepairPolicy::kNone));
  NEXUS_ASSIGN_OR_RETURN(const KvRows laid,
                         spliced.access->Read(0, kOther, kOther + kBlock));
  const llm::KvLayout& layout = engine_.kv_layout();
  const size_t first = FirstLayer(layout);
  report->moved = LayerDistance(layout, there, laid, first);
  report->unmoved =
      Distance(layout.layers[first].k_type, there.k[first], rows_.k[first]);
  report->deepest = WorstDistance(layout, there, laid);

  NEXUS_ASSIGN_OR_RETURN(Place full, Place::Create(engine_));
  NEXUS_RETURN_IF_ERROR(full.Decode(other_).status());
  NEXUS_RETURN_IF_ERROR(Lay(full, *compiled_, kv::RepairPolicy::kFull));
  report->full_is_prefill = full.LastRow() == expected;
  return Status::Ok();
}

// Attention sees relative positions only, so behind the same text, all of it
// moved by a constant, a block's cells are the same in every layer but for the
// rotation.
Status Experiment::BehindMovedText(FamilyReport* report) {
  std::array<KvRows, 2> outcomes;  // decoded, spliced
  for (const bool splice : {false, true}) {
    NEXUS_ASSIGN_OR_RETURN(Place place, Place::Create(engine_));
    NEXUS_RETURN_IF_ERROR(place.Decode(SomeTokens(kShift, 13)).status());
    NEXUS_RETURN_IF_ERROR(
        place.access
            ->WriteRows(0, kShift,
                        MoveRows(engine_.kv_layout(), engine_.rope(),
                                 before_rows_, kShift))
            .status());
    if (!place.context->RemoveCells(0, 0, kShift)) {
      return InternalError("the cells before the text can't be removed");
    }
    if (splice) {
      NEXUS_RETURN_IF_ERROR(Lay(place, *compiled_, kv::RepairPolicy::kNone));
    } else {
      NEXUS_RETURN_IF_ERROR(place.Decode(block_).status());
    }
    const int begin = kShift + kBefore;
    NEXUS_ASSIGN_OR_RETURN(outcomes[splice ? 1 : 0],
                           place.access->Read(0, begin, begin + kBlock));
  }
  report->same_text =
      WorstDistance(engine_.kv_layout(), outcomes[0], outcomes[1]);
  return Status::Ok();
}

Status Experiment::BehindSameText(FamilyReport* report) {
  NEXUS_ASSIGN_OR_RETURN(Place suffix, Place::Create(engine_));
  NEXUS_RETURN_IF_ERROR(suffix.Decode(before_).status());
  NEXUS_RETURN_IF_ERROR(
      Lay(suffix, *compiled_, kv::RepairPolicy::kSuffix, 0.3));
  NEXUS_ASSIGN_OR_RETURN(const std::vector<float> repaired,
                         suffix.Decode(question_));
  report->suffix_logits = LogitDistance(question_logits_, repaired);

  NEXUS_ASSIGN_OR_RETURN(Place restored, Place::Create(engine_));
  NEXUS_RETURN_IF_ERROR(restored.Decode(before_).status());
  NEXUS_RETURN_IF_ERROR(Lay(restored, *variant_, kv::RepairPolicy::kNone));
  NEXUS_ASSIGN_OR_RETURN(const std::vector<float> again,
                         restored.Decode(question_));
  report->variant_is_original = again == question_logits_;
  return Status::Ok();
}

Status Experiment::Run(FamilyReport* report) {
  NEXUS_RETURN_IF_ERROR(Compile());
  NEXUS_RETURN_IF_ERROR(BehindOtherText(report));
  NEXUS_RETURN_IF_ERROR(BehindMovedText(report));
  return BehindSameText(report);
}

// A refused model still answers: by prefill, and with the reason.
Status CheckFallsBack(const Engine& engine) {
  const schema::ToolSchema tool = SampleTool();
  NEXUS_ASSIGN_OR_RETURN(
      const PromptPlan plan,
      engine.planner().PlanCall(SampleConversation("Book it."), {&tool, 1},
                                ArgumentMode::kSchema, tool.name));
  NEXUS_ASSIGN_OR_RETURN(auto session, Session::Create(&engine));
  NEXUS_ASSIGN_OR_RETURN(const TierReport report, session->Prepare(plan, {}));
  const std::string& reason = engine.splice_status().message();
  if (report.tier == Tier::kPrefill &&
      std::count(report.reasons.begin(), report.reasons.end(), reason) == 1 &&
      session->tokens().size() == plan.TokenCount()) {
    return Status::Ok();
  }
  return InternalError("refused for '" + reason + "', but the tier was " +
                       std::string(TierName(report.tier)));
}

}  // namespace

std::span<const FamilyCase> FamilyCases() {
  static const std::vector<FamilyCase> cases = {
      {"HalfSplitGqa",
       "half-split pairs, grouped KV heads",
       "Qwen 2 and 2.5",
       {.arch = TinyArch::kQwen2}},
      {"HalfSplitMha",
       "half-split pairs, one KV head a head",
       "Qwen 1.5",
       {.arch = TinyArch::kQwen2, .head_count_kv = 4}},
      {"HalfSplitLongHeads",
       "heads longer than their share, Q and K normed",
       "Qwen 3",
       {.arch = TinyArch::kQwen3, .head_dim = 40}},
      {"AdjacentGqa",
       "adjacent pairs, grouped KV heads",
       "Llama, Mistral, SmolLM2",
       {.arch = TinyArch::kLlama}},
      {"AdjacentMha",
       "adjacent pairs, one KV head a head",
       "Llama 2 7B",
       {.arch = TinyArch::kLlama, .head_count_kv = 4}},
      {"AdjacentMqa",
       "adjacent pairs, a single KV head",
       "Granite code",
       {.arch = TinyArch::kLlama, .head_count_kv = 1}},
      {"PartialHalfSplit",
       "a quarter of each head rotated, half-split",
       "StableLM",
       {.arch = TinyArch::kStableLm, .head_dim = 32}},
      {"PartialAdjacent",
       "half of each head rotated, adjacent pairs",
       "GLM-4",
       {.arch = TinyArch::kGlm4}},
      {"UnrotatedLayers",
       "every fourth layer not rotated",
       "SmolLM3",
       {.arch = TinyArch::kSmolLm3, .layer_count = 4}},
      {"Linear",
       "linear scaling",
       "long-context Llama 2",
       {.arch = TinyArch::kLlama, .scaling = TinyScaling::kLinear}},
      {"YarnHalfSplit",
       "YaRN, half-split pairs",
       "Qwen 2.5 beyond 32K",
       {.arch = TinyArch::kQwen2, .scaling = TinyScaling::kYarn}},
      {"YarnAdjacent",
       "YaRN, adjacent pairs",
       "YaRN Llama",
       {.arch = TinyArch::kLlama, .scaling = TinyScaling::kYarn}},
      {"FrequencyFactors",
       "a frequency factor a pair",
       "Llama 3.1 and later",
       {.arch = TinyArch::kLlama, .scaling = TinyScaling::kLlama3}},
      {"SlidingWindow",
       "sliding window with a RoPE base of its own",
       "Gemma 3",
       {.arch = TinyArch::kGemma3, .rope_base = 1e6F}},
      {"SoftCapped",
       "soft-capped attention, sliding window",
       "Gemma 2",
       {.arch = TinyArch::kGemma2}},
      {"F32Cells",
       "cells of float32",
       "any, `--kv-type f32`",
       {.arch = TinyArch::kQwen2},
       llm::KvType::kF32},
      {"QuantisedCells",
       "quantised cells (Q8_0)",
       "any",
       {.arch = TinyArch::kQwen2, .head_dim = 32},
       kQ8Cells},
      {"MultimodalRope", "M-RoPE", "Qwen2-VL", {.arch = TinyArch::kQwen2Vl}},
      {"LearnedPositions",
       "learned position embeddings",
       "GPT-2",
       {.arch = TinyArch::kGpt2}},
      {"Recurrent",
       "recurrent state only",
       "Mamba",
       {.arch = TinyArch::kMamba}},
      {"Hybrid",
       "short convolutions beside attention",
       "LFM2",
       {.arch = TinyArch::kLfm2}},
  };
  return cases;
}

Result<FamilyReport> CheckFamily(const FamilyCase& family,
                                 bool flash_attention) {
  const ScopedTempDir dir;
  const std::string path = dir.File("tiny.gguf");
  NEXUS_RETURN_IF_ERROR(llm::testing::WriteTinyModel(path, family.model));
  EngineOptions options;
  options.model_path = path;
  options.store_dir = dir.File("store");
  options.context_tokens = 1024;
  options.threads = 1;
  options.flash_attention = flash_attention;
  options.kv_type = family.kv_type;
  NEXUS_ASSIGN_OR_RETURN(const auto engine, Engine::Create(options));
  FamilyReport report;
  report.flash_attention = flash_attention;
  report.splice_status = engine->splice_status();
  if (!report.splice_status.ok()) {
    NEXUS_RETURN_IF_ERROR(CheckFallsBack(*engine));
    return report;
  }
  report.rope = engine->rope().Describe();
  NEXUS_RETURN_IF_ERROR(Experiment(*engine).Run(&report));
  return report;
}

namespace {

// What the table says of one layout: rotation, same text, other text.
using Verdict = std::array<std::string, 3>;

Verdict VerdictOf(const FamilyReport& report) {
  if (!report.splice_status.ok()) {
    return {"-", "refused", "refused: " + report.splice_status.message()};
  }
  Verdict verdict = {report.rope, "wrong", "wrong"};
  for (size_t at = 0; (at = verdict[0].find('\n', at)) != std::string::npos;) {
    verdict[0].replace(at, 1, "; ");
  }
  if (report.variant_is_original && report.same_text <= kSameTextTolerance) {
    verdict[1] = "spliced exactly";
  }
  if (report.moved <= kMovedTolerance && report.full_is_prefill) {
    verdict[2] = report.deepest <= kSameTextTolerance ? "spliced exactly"
                                                      : "spliced with repair";
  }
  return verdict;
}

}  // namespace

std::string FamilyTable(std::span<const std::vector<FamilyReport>> reports) {
  std::string table =
      "| family | as in | rotation that the probe proved | V | same text "
      "before it | other text before it |\n|---|---|---|---|---|---|\n";
  const std::span<const FamilyCase> cases = FamilyCases();
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<std::pair<std::string, Verdict>> lines;
    for (const FamilyReport& report : reports[i]) {
      const std::string layout =
          report.flash_attention ? "row-major" : "transposed";
      Verdict verdict = VerdictOf(report);
      if (!lines.empty() && lines.back().second == verdict) {
        lines.back().first = "both";
      } else {
        lines.emplace_back(layout, std::move(verdict));
      }
    }
    for (const auto& [layout, verdict] : lines) {
      table += "| " + std::string(cases[i].family) + " | " + cases[i].models +
               " | " + verdict[0] + " | " + layout + " | " + verdict[1] +
               " | " + verdict[2] + " |\n";
    }
  }
  return table;
}

}  // namespace nexus::engine::testing
