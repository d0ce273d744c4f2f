// Test-only macros over Status and Result, and a temporary folder.
#ifndef NEXUS_BASE_TEST_UTIL_H_
#define NEXUS_BASE_TEST_UTIL_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "nexus/base/result.h"

namespace nexus::testing_internal {
inline const Status& AsStatus(const Status& status) { return status; }
template <typename T>
const Status& AsStatus(const Result<T>& result) {
  return result.status();
}
}  // namespace nexus::testing_internal

#define EXPECT_OK(expr)                                    \
  do {                                                     \
    const auto& nexus_value_ = (expr);                     \
    const auto& nexus_status_ =                            \
        ::nexus::testing_internal::AsStatus(nexus_value_); \
    EXPECT_TRUE(nexus_status_.ok()) << nexus_status_;      \
  } while (false)

#define ASSERT_OK(expr)                                    \
  do {                                                     \
    const auto& nexus_value_ = (expr);                     \
    const auto& nexus_status_ =                            \
        ::nexus::testing_internal::AsStatus(nexus_value_); \
    ASSERT_TRUE(nexus_status_.ok()) << nexus_status_;      \
  } while (false)

#define ASSERT_OK_AND_ASSIGN(lhs, expr) \
  ASSERT_OK_AND_ASSIGN_IMPL_(NEXUS_CONCAT_(nexus_result_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_IMPL_(result, lhs, expr) \
  auto result = (expr);                               \
  ASSERT_TRUE(result.ok()) << result.status();        \
  lhs = std::move(result).value()

namespace nexus {

// A fresh folder that goes away with the object.
class ScopedTempDir {
 public:
  ScopedTempDir() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "nexus-XXXXXX").string();
    NEXUS_CHECK(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~ScopedTempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScopedTempDir(const ScopedTempDir&) = delete;
  ScopedTempDir& operator=(const ScopedTempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace nexus

#endif  // NEXUS_BASE_TEST_UTIL_H_
