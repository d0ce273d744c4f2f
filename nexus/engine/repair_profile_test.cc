#include "nexus/engine/repair_profile.h"

#include <string>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/repair_choice.h"

namespace nexus::engine {
namespace {

using ::testing::HasSubstr;

kv::Fingerprint SomeFingerprint() {
  kv::Fingerprint print;
  print.model_sha256 = "abc";
  print.architecture = "qwen2";
  print.engine_version = "v1";
  return print;
}

RepairRow Row(Budget budget, int max_depth) {
  RepairRow row;
  row.budget = budget;
  row.max_depth = max_depth;
  row.policy = kv::RepairPolicy::kSensitivity;
  row.share = 0.15;
  row.contexts = 4;
  row.kl_mean = 0.002;
  row.top1 = 0.999;
  row.n = 12;
  return row;
}

RepairProfile SomeProfile() {
  RepairProfile profile;
  profile.model = "Tiny";
  profile.made = "2026-11-29";
  profile.fingerprint = SomeFingerprint();
  profile.compile_contexts = 4;
  profile.noise_kl = 0.0005;
  profile.noise_top1 = 1;
  profile.anchored_bound = 128;
  profile.rows.push_back(Row(Budget::kBalanced, 512));
  profile.rows.push_back(Row(Budget::kBalanced, 2048));
  profile.rows.back().share = 0.22;
  RepairRow refused = Row(Budget::kStrict, 512);
  refused.prefill = true;
  refused.reason = "KL 0.004 at best";
  profile.rows.push_back(refused);
  for (const int n : {1000, 120}) {
    CompositionRow row;
    row.blocks = n == 1000 ? 5 : 20;
    row.recipe = "list-hermes-generic-6-01234567";
    row.share = 0.25;
    row.max_tokens = 700;
    row.tool_choice = {.prefill = 0.8,
                       .splice = 0.797,
                       .difference_ci95 = {-0.01, 0.004},
                       .n = n};
    row.args_exact = row.tool_choice;
    row.kl_mean = 0.02;
    JudgeComposition({}, &row);
    profile.composition.push_back(row);
  }
  return profile;
}

class RepairProfileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = dir_.File(name);
    EXPECT_OK(WriteFileAtomically(fs_, path, text));
    return path;
  }

  ScopedTempDir dir_;
  FileSystem& fs_ = FileSystem::Default();
};

TEST_F(RepairProfileTest, ComesBackAsItWas) {
  const std::string text = DumpJson(ProfileToJson(SomeProfile()), 1);
  const kv::Fingerprint expected = SomeFingerprint();
  ASSERT_OK_AND_ASSIGN(const RepairProfile back,
                       ReadProfile(fs_, Write("p.json", text), &expected));
  EXPECT_EQ(DumpJson(ProfileToJson(back), 1), text);
}

TEST_F(RepairProfileTest, SaysWhichListsMayBeComposed) {
  const std::string text = DumpJson(ProfileToJson(SomeProfile()), 1);
  ASSERT_OK_AND_ASSIGN(const RepairProfile back,
                       ReadProfile(fs_, Write("p.json", text), nullptr));
  ASSERT_EQ(back.composition.size(), 2U);
  EXPECT_TRUE(back.composition[0].allowed);
  EXPECT_EQ(back.composition[0].max_tokens, 700);
  EXPECT_FALSE(back.composition[1].allowed);
  EXPECT_THAT(back.composition[1].reason, HasSubstr("120 questions"));
}

// As profiles were before lists were measured.
TEST_F(RepairProfileTest, WithoutCompositionNoListMayBeComposed) {
  Json json = ProfileToJson(SomeProfile());
  json.erase("composition");
  ASSERT_OK_AND_ASSIGN(
      const RepairProfile back,
      ReadProfile(fs_, Write("p.json", DumpJson(json)), nullptr));
  EXPECT_TRUE(back.composition.empty());
  EXPECT_FALSE(back.rows.empty());
}

TEST_F(RepairProfileTest, DamagedCompositionIsAStatus) {
  const Json good = ProfileToJson(SomeProfile());
  for (const auto& [field, value] : good["composition"][0].items()) {
    for (const Json& wrong : {Json(nullptr), Json("x"), Json::array({1})}) {
      Json bad = good;
      Json& row = bad["composition"][0];
      if (row[field].type() == wrong.type()) continue;
      // The count of tool choice, for people; the one beside its shares counts.
      if (field == "n") continue;
      row[field] = wrong;
      EXPECT_EQ(ReadProfile(fs_, Write("bad.json", DumpJson(bad)), nullptr)
                    .status()
                    .code(),
                StatusCode::kCorruption)
          << field << " = " << wrong.dump();
    }
  }
  for (const auto& [field, value] :
       {std::pair("blocks", 0.0), std::pair("share", 1.5),
        std::pair("kl_mean", -1.0)}) {
    Json bad = good;
    bad["composition"][0][field] = value;
    EXPECT_FALSE(
        ReadProfile(fs_, Write("bad.json", DumpJson(bad)), nullptr).ok())
        << field;
  }
}

TEST_F(RepairProfileTest, IsRefusedForAnotherModelByTheFieldThatDiffers) {
  kv::Fingerprint expected = SomeFingerprint();
  expected.engine_version = "v2";
  const std::string path =
      Write("p.json", DumpJson(ProfileToJson(SomeProfile())));
  const Status status = ReadProfile(fs_, path, &expected).status();
  EXPECT_EQ(status.code(), StatusCode::kIncompatible);
  EXPECT_THAT(status.message(), HasSubstr(path));
  EXPECT_THAT(status.message(), HasSubstr("engine_version"));
}

// Cut anywhere, or with any field of the wrong kind: a Status with the path.
TEST_F(RepairProfileTest, DamageOfAnyKindIsAStatus) {
  const std::string whole = DumpJson(ProfileToJson(SomeProfile()));
  for (size_t length = 0; length < whole.size(); length += 7) {
    const std::string path = Write("cut.json", whole.substr(0, length));
    const Status status = ReadProfile(fs_, path, nullptr).status();
    ASSERT_FALSE(status.ok()) << length;
    ASSERT_THAT(status.message(), HasSubstr("cut.json"));
  }
  const Json good = ProfileToJson(SomeProfile());
  for (const auto& [field, value] : good.items()) {
    if (field == "cells") continue;  // any JSON
    for (const Json& wrong : {Json(nullptr), Json("x"), Json::array({1})}) {
      Json bad = good;
      if (bad[field].type() == wrong.type() && !wrong.is_array()) continue;
      bad[field] = wrong;
      const std::string path = Write("bad.json", DumpJson(bad));
      EXPECT_FALSE(ReadProfile(fs_, path, nullptr).ok())
          << field << " = " << wrong.dump();
    }
  }
}

TEST_F(RepairProfileTest, BlocksOfTheConversationHaveRowsOfTheirOwn) {
  RepairProfile profile = SomeProfile();
  for (const double shared : {0.5, 0.9}) {
    profile.rows.push_back(Row(Budget::kBalanced, 2048));
    profile.rows.back().shared = shared;
    profile.rows.back().contexts = 0;
  }
  const auto shared_of = [&](double shared) {
    const auto row =
        profile.Find({.depth = 1000, .shared = shared, .contexts = 4});
    return row.ok() ? (*row)->shared : -1.0;
  };
  EXPECT_EQ(shared_of(0), 0);
  EXPECT_EQ(shared_of(0.3), -1);  // less than was measured
  EXPECT_EQ(shared_of(0.5), 0.5);
  EXPECT_EQ(shared_of(0.89), 0.5);
  EXPECT_EQ(shared_of(1), 0.9);
  EXPECT_FALSE(profile.Find({.depth = 4096, .shared = 1}).ok());
}

// Cells of the conversation are usually nearer, but not where only a little of
// it is shared: there the measured rows decide.
TEST(RepairChoiceTest, TheCheaperOfTwoMeasuredRepairsIsLessDecodingThenNearer) {
  RepairChoice none;
  none.kl_mean = 0.002;
  none.share = 0;
  RepairChoice head = none;
  head.share = 0.22;
  head.kl_mean = 0.001;
  EXPECT_TRUE(IsCheaper(none, head));
  EXPECT_FALSE(IsCheaper(head, none));
  RepairChoice nearer = none;
  nearer.kl_mean = 0.001;
  EXPECT_TRUE(IsCheaper(nearer, none));
  RepairChoice unmeasured;
  EXPECT_FALSE(IsCheaper(unmeasured, none));
  EXPECT_FALSE(IsCheaper(none, unmeasured));
}

// A block of a kind that wasn't measured keeps no budget: neither one of fewer
// contexts than any that was, nor one stored in fewer bits, at any depth.
TEST(RepairChoiceTest, AKindOfBlockThatWasntMeasuredIsPrefilled) {
  RepairProfile profile = SomeProfile();
  RepairRequest request = {.budget = Budget::kBalanced, .compile_contexts = 4};
  request.profile = &profile;
  for (const int depth : {0, 100, 2000}) {
    request.depth = depth;
    ASSERT_OK(ChooseRepair(request));
    RepairRequest fewer = request;
    fewer.compile_contexts = 3;
    const Status young = ChooseRepair(fewer).status();
    EXPECT_EQ(young.code(), StatusCode::kNotFound) << depth;
    EXPECT_THAT(young.message(), HasSubstr("4 contexts or more"));
    EXPECT_THAT(young.message(), HasSubstr("has 3"));
    RepairRequest small = request;
    small.storage = {kv::RowStorage::kQ8, kv::RowStorage::kQ8};
    const Status bits = ChooseRepair(small).status();
    EXPECT_EQ(bits.code(), StatusCode::kNotFound) << depth;
    EXPECT_THAT(bits.message(), HasSubstr("stored as q8"));
  }
}

TEST(RepairChoiceTest, TheMostContextsThatABlockHasDecide) {
  RepairProfile profile = SomeProfile();
  profile.rows.push_back(Row(Budget::kBalanced, 2048));
  profile.rows.back().contexts = 2;
  profile.rows.back().share = 0.5;
  RepairRequest request = {.budget = Budget::kBalanced, .depth = 100};
  request.profile = &profile;
  request.compile_contexts = 3;
  ASSERT_OK_AND_ASSIGN(const RepairChoice young, ChooseRepair(request));
  EXPECT_EQ(young.share, 0.5);
  request.compile_contexts = 4;
  ASSERT_OK_AND_ASSIGN(const RepairChoice whole, ChooseRepair(request));
  EXPECT_EQ(whole.share, 0.15);
}

// Made before rows knew their kind: all are of the profile's contexts.
TEST_F(RepairProfileTest, ReadsVersionTwo) {
  Json json = ProfileToJson(SomeProfile());
  json["schema_version"] = 2;
  for (Json& row : json["rows"]) {
    row.erase("contexts");
    row.erase("storage");
  }
  ASSERT_OK_AND_ASSIGN(
      const RepairProfile back,
      ReadProfile(fs_, Write("p.json", DumpJson(json)), nullptr));
  ASSERT_FALSE(back.rows.empty());
  for (const RepairRow& row : back.rows) {
    EXPECT_EQ(row.contexts, 4);
    EXPECT_TRUE(row.storage.is_as_cached());
  }
}

TEST_F(RepairProfileTest, OtherVersionsAreIncompatible) {
  for (const int version : {-1, 0, 1, 99}) {
    Json json = ProfileToJson(SomeProfile());
    json["schema_version"] = version;
    const Status status =
        ReadProfile(fs_, Write("p.json", DumpJson(json)), nullptr).status();
    EXPECT_EQ(status.code(), StatusCode::kIncompatible);
    EXPECT_THAT(status.message(), HasSubstr(std::to_string(version)));
    EXPECT_THAT(status.message(), HasSubstr("nexus calibrate"));
  }
}

TEST_F(RepairProfileTest, SharesOutsideZeroToOneAreCorrupt) {
  for (const double share : {-0.1, 1.01}) {
    Json json = ProfileToJson(SomeProfile());
    json["rows"][0]["share"] = share;
    EXPECT_EQ(ReadProfile(fs_, Write("p.json", DumpJson(json)), nullptr)
                  .status()
                  .code(),
              StatusCode::kCorruption);
  }
}

TEST_F(RepairProfileTest, FindTakesTheOneThatFitsAndNamesDamagedOnes) {
  RepairProfile other = SomeProfile();
  other.fingerprint.model_sha256 = "another";
  Write("a.json", DumpJson(ProfileToJson(other)));
  const std::string damaged = Write("b.json", "{");
  const kv::Fingerprint expected = SomeFingerprint();
  const std::vector<std::string> dirs = {dir_.File("missing"), dir_.path()};
  const Status none = FindProfile(fs_, dirs, expected).status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_THAT(none.message(), HasSubstr(damaged));
  EXPECT_THAT(none.message(), HasSubstr("nexus calibrate"));

  const std::string good =
      Write("c.json", DumpJson(ProfileToJson(SomeProfile())));
  ASSERT_OK_AND_ASSIGN(const RepairProfile found,
                       FindProfile(fs_, dirs, expected));
  EXPECT_EQ(found.path, good);
}

TEST(RepairChoiceTest, ANamedPolicyIsFollowed) {
  const RepairProfile profile = SomeProfile();
  ASSERT_OK_AND_ASSIGN(const RepairChoice choice,
                       ChooseRepair({.policy = kv::RepairPolicy::kHead,
                                     .share = 0.5,
                                     .depth = 100000,
                                     .profile = &profile}));
  EXPECT_EQ(choice.policy, kv::RepairPolicy::kHead);
  EXPECT_EQ(choice.share, 0.5);
}

TEST(RepairChoiceTest, WithoutAProfileThePapersCurveHolds) {
  ASSERT_OK_AND_ASSIGN(
      const RepairChoice choice,
      ChooseRepair({.depth = 1000, .profile_note = "not calibrated"}));
  EXPECT_EQ(choice.policy, kv::RepairPolicy::kSuffix);
  EXPECT_LT(choice.share, 0);
  EXPECT_EQ(choice.note, "not calibrated");
}

TEST(RepairChoiceTest, TheProfileDecidesByDepth) {
  const RepairProfile profile = SomeProfile();
  RepairRequest request = {
      .budget = Budget::kBalanced, .depth = 512, .compile_contexts = 4};
  request.profile = &profile;
  ASSERT_OK_AND_ASSIGN(const RepairChoice shallow, ChooseRepair(request));
  EXPECT_EQ(shallow.share, 0.15);
  request.depth = 513;
  ASSERT_OK_AND_ASSIGN(const RepairChoice deep, ChooseRepair(request));
  EXPECT_EQ(deep.share, 0.22);
}

TEST(RepairChoiceTest, WhatCantKeepTheBudgetIsPrefilledWithTheReason) {
  const RepairProfile profile = SomeProfile();
  RepairRequest request = {
      .budget = Budget::kStrict, .depth = 100, .compile_contexts = 4};
  request.profile = &profile;
  const Status refused = ChooseRepair(request).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("KL 0.004 at best"));

  request.budget = Budget::kBalanced;
  request.depth = 2049;
  const Status too_deep = ChooseRepair(request).status();
  EXPECT_EQ(too_deep.code(), StatusCode::kNotFound);
  EXPECT_THAT(too_deep.message(), HasSubstr("2048"));

  request.depth = 100;
  request.blocks = 5;
  EXPECT_EQ(ChooseRepair(request).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace nexus::engine
