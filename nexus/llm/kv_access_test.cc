// KvAccess over the real engine: every architecture that matters, both layouts
// of V, both element types.
#include "nexus/llm/kv_access.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "nexus/base/test_util.h"
#include "nexus/llm/rope_probe.h"
#include "nexus/llm/testing/kv_test_util.h"

namespace nexus::llm {
namespace {

using testing::KvSession;
using testing::LoadTinyModel;
using testing::MoveRows;
using testing::RowsToFloat;
using testing::SomeTokens;
using testing::TinyArch;
using testing::TinyModelOptions;
using testing::TinyScaling;

struct Case {
  const char* name;
  TinyModelOptions model;
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"Llama", {.arch = TinyArch::kLlama}},
      {"LlamaLinear",
       {.arch = TinyArch::kLlama, .scaling = TinyScaling::kLinear}},
      {"LlamaYarn", {.arch = TinyArch::kLlama, .scaling = TinyScaling::kYarn}},
      {"Llama3", {.arch = TinyArch::kLlama, .scaling = TinyScaling::kLlama3}},
      {"Qwen2", {.arch = TinyArch::kQwen2}},
      {"Qwen3", {.arch = TinyArch::kQwen3, .head_dim = 24}},
      {"Gemma2", {.arch = TinyArch::kGemma2}},
      {"Gemma3", {.arch = TinyArch::kGemma3, .rope_base = 1e6F}},
      {"StableLm", {.arch = TinyArch::kStableLm, .head_dim = 32}},
  };
  return cases;
}

// Models are read-only: one each for all tests.
Result<std::shared_ptr<const Model>> SharedModel(const Case& c) {
  static auto* models = new std::map<std::string, std::shared_ptr<const Model>>;
  auto& model = (*models)[c.name];
  if (model == nullptr) {
    NEXUS_ASSIGN_OR_RETURN(model, LoadTinyModel(c.model));
  }
  return model;
}

using Param = std::tuple<size_t, bool, KvType>;

std::string CaseName(const ::testing::TestParamInfo<Param>& param) {
  const auto& [index, flash, type] = param.param;
  return std::string(Cases()[index].name) + (flash ? "Flash" : "Transposed") +
         (type == KvType::kF16 ? "F16" : "F32");
}

class KvAccessTest : public ::testing::TestWithParam<Param> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, SharedModel(Cases()[std::get<0>(GetParam())]));
  }
  Result<KvSession> NewSession(int context_tokens = 512,
                               int sequences = 2) const {
    return KvSession::Create(model_,
                             {.context_tokens = context_tokens,
                              .sequences = sequences,
                              .flash_attention = std::get<1>(GetParam()),
                              .kv_type = std::get<2>(GetParam())});
  }
  // Largest distance between rows of a layer, relative to the typical element.
  static double Distance(KvType type, const std::vector<uint8_t>& a,
                         const std::vector<uint8_t>& b) {
    const std::vector<float> x = RowsToFloat(type, a);
    const std::vector<float> y = RowsToFloat(type, b);
    double square = 0;
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      square += double{x[i]} * double{x[i]};
      worst = std::max(worst, std::fabs(double{x[i]} - double{y[i]}));
    }
    return worst / std::sqrt(square / static_cast<double>(x.size()));
  }

  std::shared_ptr<const Model> model_;
};

INSTANTIATE_TEST_SUITE_P(
    Models, KvAccessTest,
    ::testing::Combine(::testing::Range(size_t{0}, Cases().size()),
                       ::testing::Bool(),
                       ::testing::Values(KvType::kF16, KvType::kF32)),
    CaseName);

TEST_P(KvAccessTest, FindsTheLayout) {
  ASSERT_OK_AND_ASSIGN(const KvSession session, NewSession());
  const KvLayout& layout = session.access->layout();
  const TinyModelOptions& options = Cases()[std::get<0>(GetParam())].model;
  ASSERT_EQ(layout.layers.size(), options.layer_count);
  EXPECT_EQ(layout.v_transposed, !std::get<1>(GetParam()));
  const bool gemma =
      options.arch == TinyArch::kGemma2 || options.arch == TinyArch::kGemma3;
  EXPECT_EQ(layout.sliding_window, gemma ? 64 : 0);
  size_t bytes = 0;
  for (const KvLayerShape& layer : layout.layers) {
    EXPECT_EQ(layer.k_elements, options.head_count_kv * options.head_dim);
    EXPECT_EQ(layer.v_elements, layer.k_elements);
    EXPECT_EQ(layer.k_type, std::get<2>(GetParam()));
    bytes += 2 * layer.k_elements * (layer.k_type == KvType::kF32 ? 4 : 2);
  }
  EXPECT_EQ(layout.BytesPerToken(), bytes);
  // One of three layers has no window: the base cache's comes first.
  if (gemma) {
    EXPECT_FALSE(layout.layers[0].sliding_window);
    EXPECT_TRUE(layout.layers[2].sliding_window);
  }
  EXPECT_EQ(session.context->PositionEnd(0), 0);
}

TEST_P(KvAccessTest, WrittenRowsReadBackBitForBit) {
  ASSERT_OK_AND_ASSIGN(KvSession session, NewSession());
  ASSERT_OK(session.Append(SomeTokens(150)));
  ASSERT_OK_AND_ASSIGN(const KvRows rows, session.access->Read(0, 0, 150));
  ASSERT_OK_AND_ASSIGN(const KvRows middle, session.access->Read(0, 37, 111));
  session.context->Clear();
  ASSERT_OK_AND_ASSIGN(const KvWriteStats stats,
                       session.access->WriteRows(0, 0, rows));
  EXPECT_EQ(stats.pieces, 3);
  // Rows of one piece and headers of tens of bytes a layer and cell.
  EXPECT_LE(
      stats.staging_bytes,
      kWritePieceTokens * (session.access->layout().BytesPerToken() + 24) +
          1024);
  ASSERT_OK_AND_ASSIGN(const KvRows again, session.access->Read(0, 0, 150));
  EXPECT_EQ(again.k, rows.k);
  EXPECT_EQ(again.v, rows.v);
  for (size_t i = 0; i < rows.k.size(); ++i) {
    const size_t k = session.access->layout().RowBytesK(i);
    EXPECT_TRUE(
        std::equal(middle.k[i].begin(), middle.k[i].end(),
                   rows.k[i].begin() + static_cast<std::ptrdiff_t>(37 * k)));
    const size_t v = session.access->layout().RowBytesV(i);
    EXPECT_TRUE(
        std::equal(middle.v[i].begin(), middle.v[i].end(),
                   rows.v[i].begin() + static_cast<std::ptrdiff_t>(37 * v)));
  }
  EXPECT_EQ(session.context->PositionEnd(session.access->scratch()), 0);
}

TEST_P(KvAccessTest, ExactRowsGiveTheLogitsOfTheSessionThatMadeThem) {
  ASSERT_OK_AND_ASSIGN(KvSession maker, NewSession());
  const std::vector<Token> tokens = SomeTokens(100);
  const std::span<const Token> all = tokens;
  ASSERT_OK(maker.Append(all.first(40)));
  ASSERT_OK(maker.Append(all.subspan(40)));
  ASSERT_OK_AND_ASSIGN(const KvRows rows, maker.access->Read(0, 40, 100));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> expected,
                       maker.LogitsAfter(65));

  ASSERT_OK_AND_ASSIGN(KvSession user, NewSession());
  ASSERT_OK(user.Append(all.first(40)));
  ASSERT_OK(user.access->WriteRows(0, 40, rows));
  EXPECT_EQ(user.context->PositionEnd(0), 100);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> actual, user.LogitsAfter(65));
  EXPECT_EQ(actual, expected);
}

TEST_P(KvAccessTest, AMovedBlockEqualsOneComputedAtTheTarget) {
  ASSERT_OK_AND_ASSIGN(KvSession session, NewSession());
  ASSERT_OK_AND_ASSIGN(const RopeSpec rope,
                       ProbeRope(*session.context, *session.access));
  const std::vector<Token> block = SomeTokens(48, 7);
  ASSERT_OK(session.Append(block));
  ASSERT_OK_AND_ASSIGN(const KvRows origin, session.access->Read(0, 0, 48));

  // The target: 90 tokens before it. The layer that reads no context, the
  // model's first, must come out the same; it is the first window layer in
  // Gemma's case.
  session.context->Clear();
  ASSERT_OK(session.Append(SomeTokens(90, 3)));
  ASSERT_OK(session.Append(block));
  ASSERT_OK_AND_ASSIGN(const KvRows there, session.access->Read(0, 90, 138));

  const KvLayout& layout = session.access->layout();
  const KvRows moved = MoveRows(layout, rope, origin, 90);
  size_t first = 0;
  for (size_t i = 0; i < layout.layers.size() && first == 0; ++i) {
    if (layout.layers[i].sliding_window) first = i;
  }
  const KvType type = layout.layers[first].k_type;
  const double tolerance = type == KvType::kF16 ? 6e-3 : 1e-4;
  EXPECT_LT(Distance(type, there.k[first], moved.k[first]), tolerance);
  EXPECT_LT(Distance(type, there.v[first], origin.v[first]), tolerance);
  // Not moved, it would be far off: the comparison above means something.
  EXPECT_GT(Distance(type, there.k[first], origin.k[first]), 0.1);
}

// A whole context moved by a constant: attention sees relative positions only,
// so every layer's keys must be the rotated ones.
TEST_P(KvAccessTest, AWholeContextMovesInEveryLayer) {
  ASSERT_OK_AND_ASSIGN(KvSession session, NewSession());
  ASSERT_OK_AND_ASSIGN(const RopeSpec rope,
                       ProbeRope(*session.context, *session.access));
  const std::vector<Token> tokens = SomeTokens(40, 5);
  ASSERT_OK(session.Append(tokens));
  ASSERT_OK_AND_ASSIGN(const KvRows origin, session.access->Read(0, 0, 40));

  // Keys moved by 200 and written there, then one more token is decoded: its V,
  // in all layers, must be what it is at the origin.
  ASSERT_OK(session.Append(SomeTokens(1, 11)));
  ASSERT_OK_AND_ASSIGN(const KvRows next, session.access->Read(0, 40, 41));
  const KvLayout& layout = session.access->layout();
  ASSERT_OK_AND_ASSIGN(KvSession target, NewSession());
  ASSERT_OK(target.Append(SomeTokens(200, 13)));
  ASSERT_OK(
      target.access->WriteRows(0, 200, MoveRows(layout, rope, origin, 200)));
  target.context->RemoveCells(0, 0, 200);
  ASSERT_OK(target.Append(SomeTokens(1, 11)));
  ASSERT_OK_AND_ASSIGN(const KvRows moved, target.access->Read(0, 240, 241));
  const KvRows expected = MoveRows(layout, rope, next, 240);
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const KvType type = layout.layers[i].k_type;
    // The engine's flash attention rounds to half-floats inside.
    const bool exact = type == KvType::kF32 && layout.v_transposed;
    const double tolerance = exact ? 1e-3 : 1e-2;
    EXPECT_LT(Distance(type, expected.k[i], moved.k[i]), tolerance) << i;
    EXPECT_LT(Distance(type, expected.v[i], moved.v[i]), tolerance) << i;
  }
}

// Rows [begin, end) of `rows`.
KvRows Slice(const KvLayout& layout, const KvRows& rows, int begin, int end) {
  KvRows slice = {.first_position = rows.first_position + begin,
                  .token_count = end - begin};
  const auto cut = [&](const std::vector<uint8_t>& bytes, size_t row) {
    const auto size = static_cast<std::ptrdiff_t>(row);
    return std::vector<uint8_t>(bytes.begin() + begin * size,
                                bytes.begin() + end * size);
  };
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    slice.k.push_back(cut(rows.k[i], layout.RowBytesK(i)));
    slice.v.push_back(cut(rows.v[i], layout.RowBytesV(i)));
  }
  return slice;
}

TEST_P(KvAccessTest, FragmentedCellsComeInOrderOfPositions) {
  ASSERT_OK_AND_ASSIGN(KvSession plain, NewSession(256));
  const std::vector<Token> tokens = SomeTokens(200);
  ASSERT_OK(plain.Append(tokens));
  ASSERT_OK_AND_ASSIGN(const KvRows rows, plain.access->Read(0, 0, 200));

  // Another sequence holds cells 0..79 while positions 0..119 are written to
  // cells 80..199; positions 120..199 then go to the cells that it leaves.
  ASSERT_OK_AND_ASSIGN(KvSession session, NewSession(256, 3));
  const KvLayout& layout = session.access->layout();
  ASSERT_OK(session.context->Decode(SomeTokens(80, 3), 0, 2, Logits::kNone));
  ASSERT_OK(session.access->WriteRows(0, 0, Slice(layout, rows, 0, 120)));
  session.context->RemoveCells(2, 0, -1);
  ASSERT_OK(session.access->WriteRows(0, 120, Slice(layout, rows, 120, 200)));
  ASSERT_OK_AND_ASSIGN(const KvRows again, session.access->Read(0, 0, 200));
  EXPECT_EQ(again.k, rows.k);
  EXPECT_EQ(again.v, rows.v);

  // The order of additions differs, and with it the last bits: by 0.0063 with
  // AVX-512. Flash attention adds V up in half-floats.
  const double tolerance = layout.v_transposed ? 2e-2 : 0.05;
  ASSERT_OK_AND_ASSIGN(const std::vector<float> expected,
                       plain.LogitsAfter(65));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> actual,
                       session.LogitsAfter(65));
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

TEST_P(KvAccessTest, AFullCacheIsLeftAsItWas) {
  ASSERT_OK_AND_ASSIGN(KvSession session, NewSession(256));
  ASSERT_OK_AND_ASSIGN(KvSession untouched, NewSession(256));
  const std::vector<Token> tokens = SomeTokens(150);
  ASSERT_OK(session.Append(tokens));
  ASSERT_OK(untouched.Append(tokens));
  ASSERT_OK_AND_ASSIGN(const KvRows rows, session.access->Read(0, 0, 120));
  // 150 + 120 > 256: the first piece fits, the second doesn't.
  const auto written = session.access->WriteRows(0, 150, rows);
  EXPECT_EQ(written.status().code(), StatusCode::kResourceExhausted)
      << written.status();
  EXPECT_EQ(session.context->PositionEnd(0), 150);
  EXPECT_EQ(session.context->PositionEnd(1), 0);
  ASSERT_OK_AND_ASSIGN(const std::vector<float> expected,
                       untouched.LogitsAfter(70));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> actual,
                       session.LogitsAfter(70));
  EXPECT_EQ(actual, expected);
}

TEST_P(KvAccessTest, RefusesRowsOfAnotherShape) {
  ASSERT_OK_AND_ASSIGN(KvSession session, NewSession());
  ASSERT_OK(session.Append(SomeTokens(10)));
  ASSERT_OK_AND_ASSIGN(KvRows rows, session.access->Read(0, 0, 10));
  KvRows fewer_layers = rows;
  fewer_layers.k.pop_back();
  fewer_layers.v.pop_back();
  EXPECT_EQ(session.access->WriteRows(0, 10, fewer_layers).status().code(),
            StatusCode::kIncompatible);
  rows.v[1].pop_back();
  EXPECT_EQ(session.access->WriteRows(0, 10, rows).status().code(),
            StatusCode::kIncompatible);
  EXPECT_EQ(session.context->PositionEnd(0), 10);
}

// Rows are row-major on this side, whatever the cache does.
TEST_P(KvAccessTest, RowsMoveBetweenLayoutsOfV) {
  ASSERT_OK_AND_ASSIGN(KvSession session, NewSession());
  ASSERT_OK(session.Append(SomeTokens(70)));
  ASSERT_OK_AND_ASSIGN(const KvRows rows, session.access->Read(0, 0, 70));
  ASSERT_OK_AND_ASSIGN(
      KvSession other,
      KvSession::Create(model_, {.context_tokens = 512,
                                 .flash_attention = !std::get<1>(GetParam()),
                                 .kv_type = std::get<2>(GetParam())}));
  ASSERT_OK(other.access->WriteRows(0, 0, rows));
  ASSERT_OK_AND_ASSIGN(const KvRows again, other.access->Read(0, 0, 70));
  EXPECT_EQ(again.k, rows.k);
  EXPECT_EQ(again.v, rows.v);
}

class KvAccessEdgeTest : public ::testing::Test {
 protected:
  static Result<KvSession> NewSession(TinyModelOptions model,
                                      ContextOptions options) {
    NEXUS_ASSIGN_OR_RETURN(auto loaded, LoadTinyModel(model));
    return KvSession::Create(std::move(loaded), options);
  }
};

TEST_F(KvAccessEdgeTest, NamesAPositionThatIsNotThere) {
  ASSERT_OK_AND_ASSIGN(KvSession session,
                       NewSession({}, {.context_tokens = 256}));
  ASSERT_OK(session.Append(SomeTokens(10)));
  const auto past_end = session.access->Read(0, 5, 12);
  EXPECT_EQ(past_end.status().code(), StatusCode::kNotFound);
  EXPECT_NE(past_end.status().message().find("position 11"), std::string::npos)
      << past_end.status();
  session.context->RemoveCells(0, 3, 6);
  const auto hole = session.access->Read(0, 0, 10);
  EXPECT_EQ(hole.status().code(), StatusCode::kNotFound);
  EXPECT_NE(hole.status().message().find("position 3 "), std::string::npos)
      << hole.status();
  EXPECT_OK(session.access->Read(0, 6, 10));
}

TEST_F(KvAccessEdgeTest, RefusesAWriteThatDoesNotContinueTheSequence) {
  ASSERT_OK_AND_ASSIGN(KvSession session,
                       NewSession({}, {.context_tokens = 256}));
  ASSERT_OK(session.Append(SomeTokens(10)));
  ASSERT_OK_AND_ASSIGN(const KvRows rows, session.access->Read(0, 0, 10));
  for (const Position position : {0, 9, 11}) {
    EXPECT_EQ(session.access->WriteRows(0, position, rows).status().code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(session.access->WriteRows(1, 0, rows).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session.access->Read(1, 0, 1).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(KvAccessEdgeTest, NeedsTwoSequencesAndAnEmptyContext) {
  ASSERT_OK_AND_ASSIGN(auto model, LoadTinyModel({}));
  ASSERT_OK_AND_ASSIGN(
      auto single,
      Context::Create(model,
                      {.context_tokens = 256, .threads = 1, .sequences = 1}));
  EXPECT_EQ(KvAccess::Create(single.get()).status().code(),
            StatusCode::kUnimplemented);
  ASSERT_OK_AND_ASSIGN(
      auto used, Context::Create(model, {.context_tokens = 256, .threads = 1}));
  ASSERT_OK(used->Decode(SomeTokens(3), 0, 0, Logits::kNone));
  EXPECT_EQ(KvAccess::Create(used.get()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(used->PositionEnd(0), 3);
}

// A window shorter than a write piece, and a block longer than the window.
TEST_F(KvAccessEdgeTest, ASmallWindowIsReadAndWrittenInPieces) {
  for (const bool flash : {false, true}) {
    ASSERT_OK_AND_ASSIGN(
        KvSession session,
        NewSession({.arch = TinyArch::kGemma3, .sliding_window = 16},
                   {.context_tokens = 256, .flash_attention = flash}));
    EXPECT_EQ(session.access->layout().sliding_window, 16);
    ASSERT_OK(session.Append(SomeTokens(100)));
    ASSERT_OK_AND_ASSIGN(const KvRows rows, session.access->Read(0, 20, 100));
    ASSERT_OK_AND_ASSIGN(const std::vector<float> expected,
                         session.LogitsAfter(66));
    session.context->RemoveCells(0, 20, -1);
    ASSERT_OK_AND_ASSIGN(const KvWriteStats stats,
                         session.access->WriteRows(0, 20, rows));
    EXPECT_EQ(stats.pieces, 5);
    ASSERT_OK_AND_ASSIGN(const KvRows again, session.access->Read(0, 20, 100));
    EXPECT_EQ(again.k, rows.k);
    EXPECT_EQ(again.v, rows.v);
    ASSERT_OK_AND_ASSIGN(const std::vector<float> actual,
                         session.LogitsAfter(66));
    EXPECT_EQ(actual, expected);
  }
}

TEST_F(KvAccessEdgeTest, AModelWhoseLayersAllHaveAWindowHasAnEmptyBaseCache) {
  ASSERT_OK_AND_ASSIGN(
      KvSession session,
      NewSession({.arch = TinyArch::kGemma3, .sliding_window_pattern = 6},
                 {.context_tokens = 256}));
  ASSERT_EQ(session.access->layout().layers.size(), 3U);
  for (const KvLayerShape& layer : session.access->layout().layers) {
    EXPECT_TRUE(layer.sliding_window);
  }
  ASSERT_OK(session.Append(SomeTokens(90)));
  ASSERT_OK_AND_ASSIGN(const KvRows rows, session.access->Read(0, 0, 90));
  session.context->Clear();
  ASSERT_OK(session.access->WriteRows(0, 0, rows));
  ASSERT_OK_AND_ASSIGN(const KvRows again, session.access->Read(0, 0, 90));
  EXPECT_EQ(again.k, rows.k);
}

}  // namespace
}  // namespace nexus::llm
