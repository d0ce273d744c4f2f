#include "nexus/llm/gguf_check.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::llm {
namespace {

// GGUF value types.
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

// Writes the bytes of a file piece by piece.
class Writer {
 public:
  template <typename T>
  Writer& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Writer& Text(const std::string& text) {
    Put<uint64_t>(text.size());
    bytes_ += text;
    return *this;
  }
  Writer& Header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    bytes_ += "GGUF";
    return Put(version).Put(tensors).Put(keys);
  }
  Writer& Architecture() {
    return Text("general.architecture").Put(kString).Text("llama");
  }
  Writer& Integer(const std::string& key, uint32_t value) {
    return Text(key).Put(kUint32).Put(value);
  }
  // One F32 row.
  Writer& Tensor(uint64_t size, uint64_t offset, uint32_t type = 0,
                 uint32_t dims = 1) {
    return Text("t").Put(dims).Put(size).Put(type).Put(offset);
  }
  Writer& Zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  Writer& PadTo(size_t alignment) {
    return Zeros((alignment - bytes_.size() % alignment) % alignment);
  }
  Result<GgufSummary> Check() const {
    return CheckGguf(
        {reinterpret_cast<const uint8_t*>(bytes_.data()), bytes_.size()},
        "x.gguf");
  }

 private:
  std::string bytes_;
};

StatusCode CodeOf(const Writer& writer) {
  return writer.Check().status().code();
}

TEST(GgufCheckTest, ReadsASmallFile) {
  const auto summary = Writer()
                           .Header(1, 2)
                           .Architecture()
                           .Integer("llama.block_count", 7)
                           .Tensor(8, 0)
                           .PadTo(32)
                           .Zeros(32)
                           .Check();
  ASSERT_OK(summary);
  EXPECT_EQ(summary->architecture, "llama");
  EXPECT_EQ(summary->integers.at("llama.block_count"), 7);
  EXPECT_EQ(summary->tensor_count, 1U);
}

TEST(GgufCheckTest, RefusesImpossibleCounts) {
  EXPECT_EQ(CodeOf(Writer().Header(~uint64_t{0}, 0)), StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(Writer().Header(0, ~uint64_t{0})), StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(Writer().Header(0, 1)), StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(Writer().Header(0, 1).Put(~uint64_t{0})),
            StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(Writer().Header(0, 1).Text("k").Put(kArray).Put(kUint32).Put(
                uint64_t{1} << 62)),
            StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(Writer().Header(0, 1).Text("k").Put(uint32_t{77})),
            StatusCode::kCorruption);
}

TEST(GgufCheckTest, RefusesOtherVersions) {
  for (uint32_t version : {0U, 1U, 4U, 0x03000000U}) {
    EXPECT_EQ(CodeOf(Writer().Header(0, 0, version)),
              StatusCode::kUnimplemented);
  }
}

TEST(GgufCheckTest, RefusesTensorsThatDontFit) {
  const auto with = [](uint64_t size, uint64_t offset, uint32_t type = 0,
                       uint32_t dims = 1) {
    return Writer()
        .Header(1, 1)
        .Architecture()
        .Tensor(size, offset, type, dims)
        .PadTo(32)
        .Zeros(64);
  };
  EXPECT_OK(with(16, 0).Check());
  EXPECT_EQ(CodeOf(with(17, 0)), StatusCode::kCorruption);   // past the end
  EXPECT_EQ(CodeOf(with(16, 32)), StatusCode::kCorruption);  // past the end
  EXPECT_EQ(CodeOf(with(16, 3)), StatusCode::kCorruption);   // unaligned
  EXPECT_EQ(CodeOf(with(0, 0)), StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(with(~uint64_t{0}, 0)), StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(with(16, 0, 9999)), StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(with(16, 0, 0, 50)), StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(with(16, 0, 2)),
            StatusCode::kCorruption);  // Q4_0: 32 a block
}

// The engine asserts on these.
TEST(GgufCheckTest, RefusesWhatWouldEndTheProcess) {
  for (uint32_t layers : {0U, 513U, ~0U}) {
    EXPECT_EQ(CodeOf(Writer().Header(0, 2).Architecture().Integer(
                  "llama.block_count", layers)),
              StatusCode::kCorruption);
  }
  EXPECT_EQ(CodeOf(Writer()
                       .Header(0, 3)
                       .Architecture()
                       .Integer("llama.expert_count", 4)
                       .Integer("llama.expert_used_count", 5)),
            StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(Writer()
                       .Header(0, 2)
                       .Architecture()
                       .Text("llama.rope.scaling.type")
                       .Put(kString)
                       .Text("yern")),
            StatusCode::kCorruption);
  EXPECT_EQ(CodeOf(Writer()
                       .Header(0, 1)
                       .Text("tokenizer.ggml.tokens")
                       .Put(kArray)
                       .Put(kString)
                       .Put(uint64_t{3})
                       .Text("a")
                       .Text("b")
                       .Text("a")),
            StatusCode::kCorruption);
}

}  // namespace
}  // namespace nexus::llm
