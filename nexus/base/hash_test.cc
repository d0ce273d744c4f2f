#include "nexus/base/hash.h"

#include <string>

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using testing::HasSubstr;

// FIPS 180-2, appendix B.
constexpr char kAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kTwoBlocks[] =
    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
constexpr char kMillionAs[] =
    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
constexpr char kEmpty[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Sha256Test, AgreesWithTheStandard) {
  EXPECT_EQ(ToHex(Sha256Of("")), kEmpty);
  EXPECT_EQ(ToHex(Sha256Of("abc")), kAbc);
  EXPECT_EQ(ToHex(Sha256Of(
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            kTwoBlocks);
}

TEST(Sha256Test, DoesNotDependOnThePieces) {
  Sha256 hash;
  for (int i = 0; i < 1000; ++i) hash.Update(std::string(1000, 'a'));
  EXPECT_EQ(ToHex(hash.Finish()), kMillionAs);
}

TEST(Sha256OfFileTest, ReadsFilesOfEverySize) {
  const ScopedTempDir dir;
  // Around the size of one read, 256 KiB.
  for (const size_t size : {0, 1, 262143, 262144, 262145, 1000000}) {
    const std::string bytes(size, 'a');
    const std::string path = dir.File("data");
    ASSERT_OK(WriteFileAtomically(FileSystem::Default(), path, bytes));
    ASSERT_OK_AND_ASSIGN(const Sha256Digest digest, Sha256OfFile(path));
    EXPECT_EQ(digest, Sha256Of(bytes)) << size;
  }
}

TEST(Sha256OfFileTest, NamesTheFileThatIsMissing) {
  const ScopedTempDir dir;
  const Status status = Sha256OfFile(dir.File("none")).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(dir.File("none")));
}

TEST(Sha256OfFileTest, RefusesAFolder) {
  const ScopedTempDir dir;
  EXPECT_EQ(Sha256OfFile(dir.path()).status().code(), StatusCode::kIoError);
}

TEST(ParseSha256HexTest, UndoesToHexInEitherCase) {
  ASSERT_OK_AND_ASSIGN(const Sha256Digest digest, ParseSha256Hex(kAbc));
  EXPECT_EQ(digest, Sha256Of("abc"));
  std::string upper(kAbc);
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  ASSERT_OK_AND_ASSIGN(const Sha256Digest same, ParseSha256Hex(upper));
  EXPECT_EQ(same, digest);
}

TEST(ParseSha256HexTest, SaysWhereItIsWrong) {
  EXPECT_THAT(ParseSha256Hex("abc").status().message(),
              HasSubstr("found 3 characters"));
  std::string wrong(kAbc);
  wrong[41] = 'g';
  EXPECT_THAT(ParseSha256Hex(wrong).status().message(), HasSubstr("offset 41"));
}

TEST(Xxh3Test, AgreesWithTheReference) {
  // XXH3_64bits of nothing, from the specification of xxHash 0.8.
  EXPECT_EQ(Xxh3(nullptr, 0), 0x2D06800538D394C2U);
  EXPECT_NE(Xxh3("a", 1), Xxh3("b", 1));
}

}  // namespace
}  // namespace nexus
