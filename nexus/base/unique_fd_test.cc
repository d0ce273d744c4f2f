#include "nexus/base/unique_fd.h"

#include <fcntl.h>

#include <utility>

#include "gtest/gtest.h"

namespace nexus {
namespace {

int OpenNull() { return ::open("/dev/null", O_RDONLY | O_CLOEXEC); }
bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFdTest, ClosesAtTheEndOfScope) {
  const int raw = OpenNull();
  {
    const UniqueFd fd(raw);
    EXPECT_TRUE(fd.valid());
    EXPECT_TRUE(IsOpen(raw));
  }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, MovesOwnership) {
  UniqueFd first(OpenNull());
  const int raw = first.get();
  UniqueFd second(std::move(first));
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.get(), raw);
  UniqueFd third(OpenNull());
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_FALSE(IsOpen(replaced));
  EXPECT_TRUE(IsOpen(raw));
}

TEST(UniqueFdTest, ReleaseLeavesItOpen) {
  UniqueFd fd(OpenNull());
  const int raw = fd.Release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(raw));
  fd.Reset(raw);
  fd.Reset();
  EXPECT_FALSE(IsOpen(raw));
}

}  // namespace
}  // namespace nexus
