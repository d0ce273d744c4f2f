// FamilyConformance: what splicing does, in fact, to the cells of one family of
// models. A tiny random-weight model of the family goes through the same
// experiments on either layout of V; docs/model_families.md is made of the
// outcomes.
#ifndef NEXUS_ENGINE_TESTING_FAMILY_CONFORMANCE_H_
#define NEXUS_ENGINE_TESTING_FAMILY_CONFORMANCE_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/context.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::engine::testing {

struct FamilyCase {
  const char* name;    // of gtest parameters: letters and digits
  const char* family;  // for the table
  const char* models;  // models that are like it
  llm::testing::TinyModelOptions model;
  llm::KvType kv_type = llm::KvType::kF16;
};

std::span<const FamilyCase> FamilyCases();

// ggml's Q8_0: llm::KvType has no name for what can't be spliced.
inline constexpr auto kQ8Cells = static_cast<llm::KvType>(8);

// Distances are the largest difference of an element, relative to the root mean
// square of the rows compared.
struct FamilyReport {
  bool flash_attention = false;
  // Not ok: refused, and a session then prefilled the text for this reason.
  Status splice_status;
  std::string rope;

  // A block compiled behind one text and laid behind another, deeper one,
  // against a prefill there. `moved`: the layer that reads no context, keys and
  // values. `unmoved`: its keys, had they not been rotated: what `moved` must
  // be small against. `deepest`: the worst layer, which read the other text.
  double moved = 0;
  double unmoved = 0;
  double deepest = 0;
  // The same text before it, all of it moved: every layer.
  double same_text = 0;
  // Logits behind the block with the last 30 % decoded again, the same text
  // before it; relative to the largest logit.
  double suffix_logits = 0;
  bool full_is_prefill = false;      // all decoded again: the same bits
  bool variant_is_original = false;  // stored cells restored: the same bits
};

// Fails only where the experiment itself can't be done.
Result<FamilyReport> CheckFamily(const FamilyCase& family,
                                 bool flash_attention);

// Rows of the table in Markdown. `reports` are of FamilyCases() in order, all
// layouts of a case together.
std::string FamilyTable(std::span<const std::vector<FamilyReport>> reports);

// Keys are rounded to half-floats twice on their way (un-rotated, rotated).
inline constexpr double kMovedTolerance = 6e-3;
// Rounding noise of keys and values, three layers deep; flash attention adds V
// up in half-floats, in an order that depends on the instruction set (0.0135
// was seen with AVX-512). What is wrong is off by tenths.
inline constexpr double kSameTextTolerance = 3e-2;

}  // namespace nexus::engine::testing

#endif  // NEXUS_ENGINE_TESTING_FAMILY_CONFORMANCE_H_
