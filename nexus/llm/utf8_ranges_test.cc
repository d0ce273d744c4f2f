#include "nexus/llm/utf8_ranges.h"

#include <string>

#include "gtest/gtest.h"

namespace nexus::llm {
namespace {

std::string EncodePoint(uint32_t p) {
  std::string s;
  const auto put = [&](uint32_t b) { s += static_cast<char>(b); };
  if (p < 0x80) {
    put(p);
  } else if (p < 0x800) {
    put(0xC0 | (p >> 6));
    put(0x80 | (p & 0x3F));
  } else if (p < 0x10000) {
    put(0xE0 | (p >> 12));
    put(0x80 | ((p >> 6) & 0x3F));
    put(0x80 | (p & 0x3F));
  } else {
    put(0xF0 | (p >> 18));
    put(0x80 | ((p >> 12) & 0x3F));
    put(0x80 | ((p >> 6) & 0x3F));
    put(0x80 | (p & 0x3F));
  }
  return s;
}

int MatchCount(const std::vector<Utf8Sequence>& sequences,
               const std::string& text) {
  int count = 0;
  for (const auto& sequence : sequences) {
    if (sequence.size() != text.size()) continue;
    bool match = true;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      match &= sequence[i].first <= byte && byte <= sequence[i].second;
    }
    count += match ? 1 : 0;
  }
  return count;
}

TEST(Utf8RangesTest, SequencesMatchExactlyTheRange) {
  const CodePointRange ranges[] = {{0, 0x7F},
                                   {0x40, 0x900},
                                   {0x7FF, 0x800},
                                   {0x3A9, 0x20AC},
                                   {0xFFFE, 0x10001},
                                   {0x1F600, 0x1F64F},
                                   {0xE000, kMaxCodePoint}};
  for (const auto& range : ranges) {
    std::vector<Utf8Sequence> sequences;
    for (const auto& part : Normalize({range})) {
      AppendUtf8Sequences(part, &sequences);
    }
    for (uint32_t p = 0; p <= kMaxCodePoint; p += p < 0x12000 ? 1 : 97) {
      if (p >= 0xD800 && p <= 0xDFFF) continue;
      const int expected = p >= range.first && p <= range.second ? 1 : 0;
      ASSERT_EQ(MatchCount(sequences, EncodePoint(p)), expected) << p;
    }
  }
}

TEST(Utf8RangesTest, NormalizeMergesAndCutsSurrogates) {
  const auto ranges = Normalize({{'c', 'd'}, {'a', 'b'}, {0xD000, 0xE010}});
  const std::vector<CodePointRange> expected = {
      {'a', 'd'}, {0xD000, 0xD7FF}, {0xE000, 0xE010}};
  EXPECT_EQ(ranges, expected);
}

TEST(Utf8RangesTest, ComplementOfComplementIsTheSame) {
  const auto ranges = Normalize({{0, 5}, {'a', 'z'}, {0xFFFF, 0x10FFFF}});
  EXPECT_EQ(Complement(Complement(ranges)), ranges);
}

}  // namespace
}  // namespace nexus::llm
