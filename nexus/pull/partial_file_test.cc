#include "nexus/pull/partial_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"

namespace nexus::pull {
namespace {

class PartialFileTest : public testing::Test {
 protected:
  PartialFileTest() {
    spec_.name = "m";
    spec_.bytes = 10;
    spec_.sha256 = std::string(64, 'a');
    spec_.packages = {"p1==1", "p2==1", "p3==1"};
  }

  Result<PartialFile> Open() {
    return PartialFile::Open(spec_, data_path_, record_path_);
  }
  std::string Part(const std::string& text) {
    const std::string path = dir_.File("part");
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string Data() const {
    return FileSystem::Default().ReadFile(data_path_).value();
  }
  void WriteData(const std::string& text) const {
    std::ofstream(data_path_, std::ios::binary) << text;
  }

  ScopedTempDir dir_;
  std::string data_path_ = dir_.File("m.partial");
  std::string record_path_ = dir_.File("m.partial.json");
  ModelSpec spec_;
};

TEST_F(PartialFileTest, AppendsInOrderAndResumes) {
  {
    ASSERT_OK_AND_ASSIGN(PartialFile partial, Open());
    EXPECT_EQ(partial.parts_done(), 0u);
    ASSERT_OK(partial.AppendPart(Part("abcd")));
    ASSERT_OK(partial.AppendPart(Part("efg")));
  }
  ASSERT_OK_AND_ASSIGN(PartialFile partial, Open());
  EXPECT_EQ(partial.parts_done(), 2u);
  EXPECT_EQ(partial.bytes_done(), 7u);
  ASSERT_OK(partial.AppendPart(Part("hij")));
  EXPECT_EQ(Data(), "abcdefghij");
}

TEST_F(PartialFileTest, CutsOffBytesThatNoRecordNames) {
  {
    ASSERT_OK_AND_ASSIGN(PartialFile partial, Open());
    ASSERT_OK(partial.AppendPart(Part("abcd")));
  }
  WriteData("abcdHALF");
  ASSERT_OK_AND_ASSIGN(PartialFile partial, Open());
  EXPECT_EQ(partial.parts_done(), 1u);
  EXPECT_EQ(Data(), "abcd");
}

TEST_F(PartialFileTest, RefusesAPartThatIsTooLong) {
  ASSERT_OK_AND_ASSIGN(PartialFile partial, Open());
  ASSERT_OK(partial.AppendPart(Part("abcd")));
  EXPECT_EQ(partial.AppendPart(Part("1234567")).code(),
            StatusCode::kCorruption);
  EXPECT_EQ(partial.parts_done(), 1u);
  EXPECT_EQ(Data(), "abcd");
}

TEST_F(PartialFileTest, StartsAnewWhenTheRecordCannotBeBelieved) {
  const std::string good =
      "{\"sha256\":\"" + spec_.sha256 + "\",\"parts\":1,\"bytes\":4}";
  const std::string cases[] = {
      "",
      "{",
      "[]",
      "{\"sha256\":\"" + std::string(64, 'b') + "\",\"parts\":1,\"bytes\":4}",
      "{\"sha256\":\"" + spec_.sha256 + "\",\"parts\":-1,\"bytes\":4}",
      "{\"sha256\":\"" + spec_.sha256 + "\",\"parts\":9,\"bytes\":4}",
      "{\"sha256\":\"" + spec_.sha256 + "\",\"parts\":1,\"bytes\":9}",
      "{\"sha256\":\"" + spec_.sha256 + "\",\"parts\":1}",
  };
  for (const std::string& record : cases) {
    WriteData("abcd");
    std::ofstream(record_path_, std::ios::binary) << record;
    ASSERT_OK_AND_ASSIGN(PartialFile partial, Open());
    EXPECT_EQ(partial.parts_done(), 0u) << record;
    EXPECT_EQ(Data(), "") << record;
  }
  WriteData("abcd");
  std::ofstream(record_path_, std::ios::binary) << good;
  ASSERT_OK_AND_ASSIGN(PartialFile partial, Open());
  EXPECT_EQ(partial.parts_done(), 1u);
}

}  // namespace
}  // namespace nexus::pull
