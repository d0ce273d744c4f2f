#include "nexus/calibrate/drift.h"

#include <array>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/kv/block_writer.h"
#include "nexus/simd/float16.h"

namespace nexus::calibrate {
namespace {

std::vector<uint8_t> F16Rows(const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * 2);
  auto* out = reinterpret_cast<uint16_t*>(bytes.data());
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = simd::F32ToF16Bits(values[i]);
  }
  return bytes;
}

// Two tokens, one layer, two heads of two channels.
class DriftTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<llm::Token> tokens = {7, 11};
    const std::vector<llm::KvLayerShape> layers = {
        {.k_elements = 4, .v_elements = 2}};
    const std::vector<std::vector<uint8_t>> k = {
        F16Rows({1, 3, 5, 5, 0, 0, 2, -2})};
    const std::vector<std::vector<uint8_t>> v = {F16Rows({3, 4, 1, 0})};
    kv::BlockContents contents;
    contents.metadata.tool_name = "clock";
    contents.tokens = tokens;
    contents.layers = layers;
    contents.k = k;
    contents.v = v;
    const std::string path = dir_.File("block.nxb");
    ASSERT_OK(
        kv::WriteBlockFile(FileSystem::Default(), path, contents).status());
    ASSERT_OK_AND_ASSIGN(block_, kv::KvBlock::Open(path));
  }

  ScopedTempDir dir_;
  std::shared_ptr<const kv::KvBlock> block_;
};

TEST_F(DriftTest, IsTheSquaredDistanceOverTheSquaredNorm) {
  llm::KvRows truth;
  truth.token_count = 2;
  truth.k = {F16Rows({0, 0, 0, 0, 0, 0, 0, 0})};
  truth.v = {F16Rows({3, 9, 1, 0})};
  ASSERT_OK_AND_ASSIGN(const std::vector<float> drift,
                       TokenDrift(*block_, truth));
  ASSERT_EQ(drift.size(), 2U);
  EXPECT_FLOAT_EQ(drift[0], 1.0F);  // 5^2 / (3^2 + 4^2)
  EXPECT_FLOAT_EQ(drift[1], 0.0F);
}

TEST_F(DriftTest, RefusesCellsOfAnotherShape) {
  llm::KvRows truth;
  truth.token_count = 1;
  truth.v = {F16Rows({3, 4})};
  EXPECT_EQ(TokenDrift(*block_, truth).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(DriftTest, KVarianceIsTheMeanOfTheHeads) {
  const std::array<uint32_t, 1> dims = {2};
  ASSERT_OK_AND_ASSIGN(const std::vector<float> proxy,
                       KVarianceProxy(*block_, dims));
  ASSERT_EQ(proxy.size(), 2U);
  EXPECT_FLOAT_EQ(proxy[0], 0.5F);  // heads (1, 3) and (5, 5)
  EXPECT_FLOAT_EQ(proxy[1], 2.0F);  // heads (0, 0) and (2, -2)
}

TEST(SpearmanTest, FollowsOrderNotSize) {
  const std::vector<double> a = {1, 2, 3, 4};
  const std::vector<double> up = {1, 10, 100, 1000};
  const std::vector<double> down = {4, 3, 2, 1};
  EXPECT_DOUBLE_EQ(SpearmanRho(a, up), 1.0);
  EXPECT_DOUBLE_EQ(SpearmanRho(a, down), -1.0);
}

TEST(SpearmanTest, TiesShareTheirRank) {
  const std::vector<double> a = {1, 1, 2, 3};
  const std::vector<double> b = {5, 6, 7, 8};
  // Ranks (0.5, 0.5, 2, 3) and (0, 1, 2, 3).
  EXPECT_NEAR(SpearmanRho(a, b), 4.5 / std::sqrt(4.5 * 5.0), 1e-12);
}

TEST(SpearmanTest, HasNothingToSayOfConstantsAndFewPairs) {
  EXPECT_EQ(SpearmanRho(std::vector<double>{1, 1, 1, 1},
                        std::vector<double>{1, 2, 3, 4}),
            0);
  EXPECT_EQ(SpearmanRho(std::vector<double>{1, 2}, std::vector<double>{1, 2}),
            0);
}

}  // namespace
}  // namespace nexus::calibrate
