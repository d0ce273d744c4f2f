// The fields that scripts rely on, by name and kind. Adding one is no harm;
// taking one away, or changing its kind, breaks somebody.
#include "nexus/cli/bench_json.h"

#include "gmock/gmock.h"

namespace nexus::cli {
namespace {

using calibrate::Trial;
using calibrate::TrialArm;

enum class Kind { kText, kNumber, kInteger, kBool, kList, kObject };

bool Is(const Json& value, Kind kind) {
  switch (kind) {
    case Kind::kText:
      return value.is_string();
    case Kind::kNumber:
      return value.is_number();
    case Kind::kInteger:
      return value.is_number_integer();
    case Kind::kBool:
      return value.is_boolean();
    case Kind::kList:
      return value.is_array();
    case Kind::kObject:
      return value.is_object();
  }
  return false;
}

void ExpectFields(const Json& json, const std::map<std::string, Kind>& fields) {
  for (const auto& [name, kind] : fields) {
    ASSERT_TRUE(json.contains(name)) << name << " is missing: " << json;
    EXPECT_TRUE(Is(json[name], kind)) << name << " is " << json[name];
  }
}

void ExpectInterval(const Json& json) {
  ASSERT_TRUE(json.is_array()) << json;
  ASSERT_EQ(json.size(), 2U);
  EXPECT_TRUE(json[0].is_number() && json[1].is_number()) << json;
  EXPECT_LE(json[0].get<double>(), json[1].get<double>());
}

TEST(BenchJsonTest, FidelityKeepsItsFields) {
  std::vector<Trial> trials;
  for (const char* tool : {"a", "b"}) {
    Trial trial;
    trial.depth = 256;
    trial.tool = tool;
    trial.prefill_ms = 100;
    trial.rho_sensitivity = 0.5;
    trial.rho_k_variance = 0.25;
    TrialArm noise;
    noise.noise = true;
    noise.kl = {0.001, 0.003};
    noise.top1 = {1, 0};
    TrialArm arm;
    arm.arm = {.policy = kv::RepairPolicy::kSensitivity, .share = 0.15};
    arm.recompute_share = 0.15;
    arm.runs = 3;
    arm.ttft_ms = 20;
    arm.kl = {0.01, 0.03};
    arm.top1 = {1, 1};
    trial.arms = {noise, arm};
    trials.push_back(trial);
  }
  const Json json = FidelityJson("Tiny", trials);
  ExpectFields(json, {{"model", Kind::kText},
                      {"noise_floor", Kind::kObject},
                      {"cells", Kind::kList},
                      {"drift_spearman", Kind::kObject}});
  EXPECT_EQ(json["model"], "Tiny");
  ExpectFields(json["noise_floor"],
               {{"kl_mean", Kind::kNumber}, {"top1", Kind::kNumber}});
  EXPECT_DOUBLE_EQ(json["noise_floor"]["kl_mean"].get<double>(), 0.002);
  EXPECT_DOUBLE_EQ(json["noise_floor"]["top1"].get<double>(), 0.5);
  ExpectFields(json["drift_spearman"],
               {{"k_variance", Kind::kNumber}, {"sensitivity", Kind::kNumber}});
  EXPECT_DOUBLE_EQ(json["drift_spearman"]["sensitivity"].get<double>(), 0.5);
  // The noise floor is no cell.
  ASSERT_EQ(json["cells"].size(), 1U);
  const Json& cell = json["cells"][0];
  ExpectFields(cell, {{"frame", Kind::kText},
                      {"blocks", Kind::kInteger},
                      {"depth", Kind::kInteger},
                      {"policy", Kind::kText},
                      {"budget", Kind::kNumber},
                      {"recompute_share", Kind::kNumber},
                      {"runs", Kind::kNumber},
                      {"kl_mean", Kind::kNumber},
                      {"kl_p99", Kind::kNumber},
                      {"kl_max", Kind::kNumber},
                      {"top1", Kind::kNumber},
                      {"first_top1", Kind::kNumber},
                      {"ttft_ratio", Kind::kNumber},
                      {"n", Kind::kInteger}});
  EXPECT_EQ(cell["policy"], "sensitivity");
  EXPECT_EQ(cell["n"], 2);
  EXPECT_DOUBLE_EQ(cell["ttft_ratio"].get<double>(), 5);
  EXPECT_DOUBLE_EQ(cell["kl_max"].get<double>(), 0.03);
}

TEST(BenchJsonTest, DeterminismKeepsItsFields) {
  engine::DeterminismResult result;
  for (const char* name : {"splice 1", "prefix 1"}) {
    engine::DeterminismSession session;
    session.name = name;
    session.alone.tokens = {1, 2, 3};
    result.sessions.push_back(session);
  }
  result.logits_hash_equal = false;
  const Json json = DeterminismJson({.model = "Tiny", .threads = 2}, result);
  ExpectFields(json, {{"sessions", Kind::kInteger},
                      {"tokens_equal", Kind::kBool},
                      {"logits_hash_equal", Kind::kBool},
                      {"model", Kind::kText},
                      {"logits_sha256", Kind::kText}});
  EXPECT_EQ(json["sessions"], 2);
  EXPECT_TRUE(json["tokens_equal"].get<bool>());
  EXPECT_FALSE(json["logits_hash_equal"].get<bool>());
  EXPECT_EQ(json["generated_tokens"], 6);
}

engine::ComposeArmResult Arm(const std::string& name) {
  engine::ComposeArmResult arm;
  arm.name = name;
  arm.n = 10;
  arm.n_args = 8;
  arm.choice_right = 7;
  arm.args_right = 2;
  arm.reference_choice_right = 9;
  arm.reference_args_right = 4;
  arm.mcnemar_p = 0.5;
  arm.difference_ci95 = {-0.4, 0};
  return arm;
}

TEST(BenchJsonTest, ComposeKeepsItsFields) {
  engine::ComposeBenchResult result;
  result.blocks = 5;
  result.lists = 3;
  // More questions than the arm was asked yet.
  result.reference.n = 40;
  result.reference.choice_right = 1;
  result.arms = {Arm("exact"), Arm("generic:25")};
  const Json json = ComposeJson(
      result, {.model = "Tiny", .samples = 6, .headline = "generic:25"});
  ExpectFields(json, {{"blocks", Kind::kInteger},
                      {"n", Kind::kInteger},
                      {"tool_choice", Kind::kObject},
                      {"args_exact", Kind::kObject},
                      {"mcnemar_p", Kind::kNumber},
                      {"ci95", Kind::kList},
                      {"headline", Kind::kText},
                      {"arms", Kind::kList}});
  EXPECT_EQ(json["blocks"], 5);
  EXPECT_EQ(json["n"], 10);
  EXPECT_EQ(json["headline"], "generic:25");
  for (const char* figure : {"tool_choice", "args_exact"}) {
    ExpectFields(json[figure],
                 {{"prefill", Kind::kNumber}, {"splice", Kind::kNumber}});
  }
  EXPECT_DOUBLE_EQ(json["tool_choice"]["prefill"].get<double>(), 0.9);
  EXPECT_DOUBLE_EQ(json["tool_choice"]["splice"].get<double>(), 0.7);
  EXPECT_DOUBLE_EQ(json["args_exact"]["prefill"].get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(json["args_exact"]["splice"].get<double>(), 0.25);
  ExpectInterval(json["ci95"]);
  ASSERT_EQ(json["arms"].size(), 2U);
  ExpectFields(json["arms"][0], {{"arm", Kind::kText},
                                 {"n", Kind::kInteger},
                                 {"tool_choice", Kind::kNumber},
                                 {"args_exact", Kind::kNumber},
                                 {"mcnemar_p", Kind::kNumber},
                                 {"kl_mean", Kind::kNumber},
                                 {"kl_p99", Kind::kNumber}});
  ExpectInterval(json["arms"][0]["tool_choice_ci95"]);
  ExpectInterval(json["arms"][0]["args_exact_ci95"]);
}

TEST(BenchJsonTest, CalibrateKeepsItsFields) {
  engine::RepairProfile profile;
  profile.model = "Tiny";
  profile.made = "2026-12-01";
  engine::RepairRow row;
  row.contexts = 4;
  profile.rows = {row};
  row.prefill = true;
  row.reason = "KL 0.1";
  profile.rows.push_back(row);
  engine::CompositionRow composed;
  composed.blocks = 5;
  composed.recipe = "list-hermes-generic-6-01234567";
  engine::JudgeComposition({}, &composed);
  profile.composition = {composed};
  const Json json = CalibrateJson(profile, "out.json", "trials.jsonl");
  // PrintJson puts its own first.
  EXPECT_FALSE(json.contains("schema_version"));
  ExpectFields(json, {{"model", Kind::kText},
                      {"made", Kind::kText},
                      {"profile", Kind::kText},
                      {"trials", Kind::kText},
                      {"compile_contexts", Kind::kInteger},
                      {"noise_floor", Kind::kObject},
                      {"anchored_bound", Kind::kInteger},
                      {"rows", Kind::kList},
                      {"composition", Kind::kList},
                      {"cells", Kind::kList}});
  EXPECT_EQ(json["profile"], "out.json");
  EXPECT_EQ(json["trials"], "trials.jsonl");
  ASSERT_EQ(json["rows"].size(), 2U);
  for (const Json& each : json["rows"]) {
    ExpectFields(each, {{"budget", Kind::kText},
                        {"blocks", Kind::kInteger},
                        {"max_depth", Kind::kInteger},
                        {"tier", Kind::kText},
                        {"kl_mean", Kind::kNumber},
                        {"top1", Kind::kNumber},
                        {"ttft_ratio", Kind::kNumber},
                        {"n", Kind::kInteger}});
  }
  EXPECT_EQ(json["rows"][0]["tier"], "splice");
  EXPECT_EQ(json["rows"][1]["reason"], "KL 0.1");
  const Json& list = json["composition"][0];
  ExpectFields(list, {{"blocks", Kind::kInteger},
                      {"recipe", Kind::kText},
                      {"share", Kind::kNumber},
                      {"max_tokens", Kind::kInteger},
                      {"n", Kind::kInteger},
                      {"tool_choice", Kind::kObject},
                      {"args_exact", Kind::kObject},
                      {"kl_mean", Kind::kNumber},
                      {"allowed", Kind::kBool},
                      {"reason", Kind::kText}});
  ExpectFields(list["tool_choice"],
               {{"prefill", Kind::kNumber}, {"splice", Kind::kNumber}});
  ExpectInterval(list["tool_choice"]["difference_ci95"]);
}

}  // namespace
}  // namespace nexus::cli
