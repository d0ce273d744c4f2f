#include "nexus/route/router_profile.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::route {
namespace {

using ::testing::HasSubstr;

RouterProfile Sample() {
  RouterProfile profile;
  profile.encoder = "x.gguf";
  profile.encoder_sha256 = "abc123";
  profile.made = "2026-01-02";
  profile.bm25_weight = 0.25F;
  profile.head.weights = {1, 2, 3, 4, 5, -6};
  profile.head.bias = -1.5F;
  profile.head.route_at = 0.9F;
  profile.head.abstain_below = 0.125F;
  profile.pairs = {.reranker = "y.gguf",
                   .reranker_sha256 = "def456",
                   .depth = 12,
                   .blend = 2.5F,
                   .head = {.weights = {0, 0, 0, 0, 0, 0, 7, 8}}};
  profile.measured = {{"top1", 0.5}};
  return profile;
}

class RouterProfileTest : public ::testing::Test {
 protected:
  Status Write(const std::string& text) {
    return WriteFileAtomically(fs_, path_, text);
  }
  Result<RouterProfile> Read(std::string_view fingerprint = "abc123;engine") {
    return ReadRouterProfile(fs_, path_, fingerprint);
  }

  FileSystem& fs_ = FileSystem::Default();
  const ScopedTempDir dir_;
  const std::string path_ = dir_.path() + "/x.router.json";
};

TEST_F(RouterProfileTest, ComesBackAsItWas) {
  ASSERT_OK(WriteRouterProfile(fs_, path_, Sample()));
  ASSERT_OK_AND_ASSIGN(const RouterProfile read, Read());
  EXPECT_EQ(read.encoder, "x.gguf");
  EXPECT_EQ(read.made, "2026-01-02");
  EXPECT_EQ(read.bm25_weight, 0.25F);
  EXPECT_EQ(read.head.weights, Sample().head.weights);
  EXPECT_EQ(read.head.bias, -1.5F);
  EXPECT_EQ(read.head.route_at, 0.9F);
  EXPECT_EQ(read.head.abstain_below, 0.125F);
  EXPECT_EQ(read.measured, Sample().measured);
  ASSERT_TRUE(read.pairs.has_value());
  EXPECT_EQ(read.pairs->reranker, "y.gguf");
  EXPECT_EQ(read.pairs->reranker_sha256, "def456");
  EXPECT_EQ(read.pairs->depth, 12);
  EXPECT_EQ(read.pairs->blend, 2.5F);
  EXPECT_EQ(read.pairs->head.weights, Sample().pairs->head.weights);
}

TEST_F(RouterProfileTest, ACrossEncoderIsOptional) {
  RouterProfile profile = Sample();
  profile.pairs.reset();
  ASSERT_OK(WriteRouterProfile(fs_, path_, profile));
  ASSERT_OK_AND_ASSIGN(const RouterProfile read, Read());
  EXPECT_FALSE(read.pairs.has_value());
}

TEST_F(RouterProfileTest, StandsBesideItsEncoder) {
  EXPECT_EQ(RouterProfilePath("a/x.gguf"), "a/x.router.json");
  EXPECT_EQ(RouterProfilePath("a/x"), "a/x.router.json");
}

TEST_F(RouterProfileTest, AnotherEncodersOrAnotherVersionsIsRefused) {
  EXPECT_EQ(Read().status().code(), StatusCode::kNotFound);
  ASSERT_OK(WriteRouterProfile(fs_, path_, Sample()));
  EXPECT_EQ(Read("def;engine").status().code(), StatusCode::kIncompatible);
  ASSERT_OK(Write(R"({"version": 1})"));
  EXPECT_EQ(Read().status().code(), StatusCode::kIncompatible);
  EXPECT_THAT(Read().status().message(), HasSubstr("version 1"));
}

TEST_F(RouterProfileTest, ADamagedOneNamesTheField) {
  ASSERT_OK(WriteRouterProfile(fs_, path_, Sample()));
  ASSERT_OK_AND_ASSIGN(const std::string whole, fs_.ReadFile(path_));
  ASSERT_OK_AND_ASSIGN(const Json good, ParseJson(whole, path_));
  const auto expect_named = [&](const char* pointer, const Json& value,
                                const char* name) {
    Json bad = good;
    bad[Json::json_pointer(pointer)] = value;
    ASSERT_OK(Write(DumpJson(bad)));
    EXPECT_EQ(Read().status().code(), StatusCode::kCorruption) << pointer;
    EXPECT_THAT(Read().status().message(), HasSubstr(name));
    EXPECT_THAT(Read().status().message(), HasSubstr("x.router.json"));
  };
  expect_named("/bm25_weight", 1.5, "bm25_weight");
  expect_named("/bm25_weight", "much", "type");
  expect_named("/head/weights/words", 1e30, "words");
  expect_named("/head/weights/words", nullptr, "type");
  expect_named("/head/route_at", -0.1, "route_at");
  expect_named("/head/abstain_below", 0.95, "abstain_below");
  expect_named("/head", Json::array(), "type");
  expect_named("/pairs", Json::array(), "type");
  expect_named("/pairs/depth", 0, "depth");
  expect_named("/pairs/blend", -1, "blend");
  expect_named("/pairs/head/weights/pair_odds", 1e30, "pair_odds");
  // Cut anywhere, it is no profile.
  for (size_t kept = 0; kept + 1 < whole.size(); kept += 7) {
    ASSERT_OK(Write(whole.substr(0, kept)));
    EXPECT_FALSE(Read().ok()) << kept;
  }
}

}  // namespace
}  // namespace nexus::route
