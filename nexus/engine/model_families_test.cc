// Every family of models that Nexus splices or refuses, on either layout of V,
// and the table in docs/model_families.md that is made of it.
//
//   NEXUS_UPDATE_DOCS=1 model_families_test    writes the table anew
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/testing/family_conformance.h"

namespace nexus::engine {
namespace {

using testing::CheckFamily;
using testing::FamilyCase;
using testing::FamilyCases;
using testing::FamilyReport;
using ::testing::HasSubstr;
using testing::kMovedTolerance;
using testing::kSameTextTolerance;

// Quantised V needs flash attention, so the engine has no such context without.
std::vector<bool> LayoutsOf(const FamilyCase& family) {
  if (family.kv_type == testing::kQ8Cells) return {true};
  return {false, true};
}

// The table's test looks at all of them again; each is checked once a process.
Result<FamilyReport> Report(size_t index, bool flash_attention) {
  static auto* done = new std::map<std::pair<size_t, bool>, FamilyReport>;
  const auto key = std::pair(index, flash_attention);
  if (const auto it = done->find(key); it != done->end()) return it->second;
  NEXUS_ASSIGN_OR_RETURN(FamilyReport report,
                         CheckFamily(FamilyCases()[index], flash_attention));
  (*done)[key] = report;
  return report;
}

class ModelFamiliesTest : public ::testing::TestWithParam<size_t> {};

TEST_P(ModelFamiliesTest, SplicesAsTheTableSaysOrRefuses) {
  for (const bool flash : LayoutsOf(FamilyCases()[GetParam()])) {
    SCOPED_TRACE(flash ? "V row-major" : "V transposed");
    ASSERT_OK_AND_ASSIGN(const FamilyReport report, Report(GetParam(), flash));
    if (!report.splice_status.ok()) {
      EXPECT_EQ(report.splice_status.code(), StatusCode::kUnimplemented);
      continue;
    }
    EXPECT_LT(report.moved, kMovedTolerance);
    // Far off without the rotation, so that the line above means something.
    EXPECT_GT(report.unmoved, 0.1);
    EXPECT_LT(report.same_text, kSameTextTolerance);
    EXPECT_LT(report.suffix_logits, kSameTextTolerance);
    EXPECT_TRUE(report.full_is_prefill);
    EXPECT_TRUE(report.variant_is_original);
    RecordProperty("moved", std::to_string(report.moved));
    RecordProperty("same_text", std::to_string(report.same_text));
    RecordProperty("suffix_logits", std::to_string(report.suffix_logits));
    RecordProperty("deepest", std::to_string(report.deepest));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ModelFamiliesTest,
                         ::testing::Range(size_t{0}, FamilyCases().size()),
                         [](const auto& param_info) {
                           return std::string(
                               FamilyCases()[param_info.param].name);
                         });

TEST(ModelFamiliesTableTest, TheDocumentHoldsWhatTheModelsDid) {
  const std::string path =
      std::string(NEXUS_SOURCE_DIR) + "/docs/model_families.md";
  const std::string begin = "<!-- begin families -->\n";
  const std::string end = "<!-- end families -->";
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t from = text.find(begin);
  const size_t to = text.find(end);
  ASSERT_NE(from, std::string::npos) << path;
  ASSERT_NE(to, std::string::npos) << path;

  std::vector<std::vector<FamilyReport>> reports;
  for (size_t i = 0; i < FamilyCases().size(); ++i) {
    auto& layouts = reports.emplace_back();
    for (const bool flash : LayoutsOf(FamilyCases()[i])) {
      ASSERT_OK_AND_ASSIGN(FamilyReport report, Report(i, flash));
      layouts.push_back(std::move(report));
    }
  }
  const std::string table = testing::FamilyTable(reports);
  EXPECT_THAT(table, Not(HasSubstr("wrong")));
  const size_t body = from + begin.size();
  if (std::getenv("NEXUS_UPDATE_DOCS") != nullptr) {
    text.replace(body, to - body, table);
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  EXPECT_EQ(text.substr(body, to - body), table)
      << "run with NEXUS_UPDATE_DOCS=1 to write it anew";
}

}  // namespace
}  // namespace nexus::engine
