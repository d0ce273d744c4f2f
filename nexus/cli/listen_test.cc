#include "nexus/cli/listen.h"

#include <cstdlib>
#include <fstream>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::cli {
namespace {

constexpr char kVariable[] = "NEXUS_API_KEY";

Result<std::string> FromEnvironment(const char* value) {
  EXPECT_EQ(::setenv(kVariable, value, 1), 0);
  auto key = ApiKey({});
  EXPECT_EQ(std::getenv(kVariable), nullptr);
  return key;
}

Result<std::string> FromFile(const char* text) {
  const ScopedTempDir dir;
  const std::string path = dir.File("key");
  std::ofstream(path) << text;
  return ApiKey({.api_key_file = path});
}

TEST(ListenTest, ReadsTheSameKeyFromEnvironmentAndFile) {
  for (const char* text :
       {"a key", "a key\n", "a key\r\n", "  a key", "\t a key \n\n"}) {
    ASSERT_OK_AND_ASSIGN(const std::string from_environment,
                         FromEnvironment(text));
    EXPECT_EQ(from_environment, "a key");
    ASSERT_OK_AND_ASSIGN(const std::string from_file, FromFile(text));
    EXPECT_EQ(from_file, "a key");
  }
}

TEST(ListenTest, BlanksAreNoKeyAndNotTheLackOfOne) {
  for (const char* text : {" ", "\n", " \t\r\n"}) {
    EXPECT_EQ(FromEnvironment(text).status().code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(FromFile(text).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(FromFile("").status().code(), StatusCode::kInvalidArgument);
}

TEST(ListenTest, AnEmptyOrUnsetVariableMeansThatThereIsNone) {
  ASSERT_OK_AND_ASSIGN(const std::string empty, FromEnvironment(""));
  EXPECT_EQ(empty, "");
  ASSERT_OK_AND_ASSIGN(const std::string unset, ApiKey({}));
  EXPECT_EQ(unset, "");
}

}  // namespace
}  // namespace nexus::cli
