#include "nexus/base/status.h"

#include <cerrno>
#include <memory>
#include <string>

#include "gmock/gmock.h"

#include "nexus/base/result.h"
#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using testing::HasSubstr;

TEST(StatusTest, IsOkByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.ToString(), "ok");
}

TEST(StatusTest, NamesTheCodeBeforeTheMessage) {
  const Status status = IncompatibleError("block x.nxb: rope base differs");
  EXPECT_EQ(status.code(), StatusCode::kIncompatible);
  EXPECT_EQ(status.ToString(), "incompatible: block x.nxb: rope base differs");
}

TEST(StatusTest, ContextKeepsTheCodeAndLeavesOkAlone) {
  const Status status = CorruptionError("checksum").WithContext("a.nxb");
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(status.message(), "a.nxb: checksum");
  EXPECT_EQ(Status::Ok().WithContext("a.nxb").ToString(), "ok");
}

TEST(StatusTest, ErrnoPicksTheCode) {
  EXPECT_EQ(ErrnoError("open", "/x", ENOENT).code(), StatusCode::kNotFound);
  EXPECT_EQ(ErrnoError("write", "/x", ENOSPC).code(),
            StatusCode::kResourceExhausted);
  const Status status = ErrnoError("read", "/x", EIO);
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("read /x: "));
}

Result<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgumentError("odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  NEXUS_ASSIGN_OR_RETURN(const int half, Half(value));
  return Half(half);
}

Status CheckQuarter(int value) {
  NEXUS_RETURN_IF_ERROR(Quarter(value).status());
  return Status::Ok();
}

TEST(ResultTest, CarriesAValueOrTheReason) {
  ASSERT_OK_AND_ASSIGN(const int value, Quarter(12));
  EXPECT_EQ(value, 3);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
  EXPECT_OK(CheckQuarter(8));
  EXPECT_EQ(CheckQuarter(7).code(), StatusCode::kInvalidArgument);
}

TEST(ResultTest, MovesOutWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> owned = *std::move(result);
  EXPECT_EQ(*owned, 5);
}

TEST(ResultDeathTest, ReadingTheValueOfAnErrorStops) {
  const Result<int> result = NotFoundError("gone");
  EXPECT_DEATH(static_cast<void>(result.value()), "check failed: ok");
}

TEST(ResultDeathTest, AnErrorMustNotBeOk) {
  EXPECT_DEATH(Result<int>(Status::Ok()), "check failed");
}

}  // namespace
}  // namespace nexus
