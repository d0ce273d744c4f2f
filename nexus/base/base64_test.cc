#include "nexus/base/base64.h"

#include <vector>

#include "gtest/gtest.h"

namespace nexus {
namespace {

TEST(Base64Test, HasTheVectorsOfRfc4648) {
  EXPECT_EQ(Base64(std::string_view("")), "");
  EXPECT_EQ(Base64(std::string_view("f")), "Zg==");
  EXPECT_EQ(Base64(std::string_view("fo")), "Zm8=");
  EXPECT_EQ(Base64(std::string_view("foo")), "Zm9v");
  EXPECT_EQ(Base64(std::string_view("foobar")), "Zm9vYmFy");
  EXPECT_EQ(Base64(std::string_view("\xfb\xff\xfe")), "+//+");
}

TEST(Base64Test, WritesFloatsLittleEndian) {
  // 00 00 80 3f  00 00 00 c0
  EXPECT_EQ(Base64(std::vector<float>{1.0F, -2.0F}), "AACAPwAAAMA=");
}

}  // namespace
}  // namespace nexus
