#include "nexus/llm/utf8_ranges.h"

#include <algorithm>

namespace nexus::llm {
namespace {

constexpr uint32_t kFirstSurrogate = 0xD800;
constexpr uint32_t kLastSurrogate = 0xDFFF;
// Largest code point of each encoded length, 1 to 4 bytes.
constexpr uint32_t kLengthLimits[] = {0x7F, 0x7FF, 0xFFFF, kMaxCodePoint};

int EncodedLength(uint32_t point) {
  int length = 1;
  while (point > kLengthLimits[length - 1]) ++length;
  return length;
}

std::vector<uint8_t> Encode(uint32_t point, int length) {
  if (length == 1) return {static_cast<uint8_t>(point)};
  constexpr uint8_t kLeads[] = {0, 0, 0xC0, 0xE0, 0xF0};
  std::vector<uint8_t> bytes(static_cast<size_t>(length));
  for (int i = length - 1; i > 0; --i) {
    bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(0x80 | (point & 0x3F));
    point >>= 6;
  }
  bytes[0] = static_cast<uint8_t>(kLeads[length] | point);
  return bytes;
}

// Both ends have `length` bytes. A range is one sequence when every byte after
// the first that differs runs over all of its 64 values; otherwise it is cut
// where the low bits start or end a full run.
void AppendSameLength(uint32_t low, uint32_t high, int length,
                      std::vector<Utf8Sequence>* sequences) {
  for (int i = 1; i < length; ++i) {
    const uint32_t mask = (1U << (6 * i)) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;
    if ((low & mask) != 0) {
      AppendSameLength(low, low | mask, length, sequences);
      AppendSameLength((low | mask) + 1, high, length, sequences);
      return;
    }
    if ((high & mask) != mask) {
      AppendSameLength(low, (high & ~mask) - 1, length, sequences);
      AppendSameLength(high & ~mask, high, length, sequences);
      return;
    }
  }
  const auto first = Encode(low, length);
  const auto last = Encode(high, length);
  Utf8Sequence sequence;
  for (size_t i = 0; i < first.size(); ++i) {
    sequence.emplace_back(first[i], last[i]);
  }
  sequences->push_back(std::move(sequence));
}

}  // namespace

std::vector<CodePointRange> Normalize(std::vector<CodePointRange> ranges) {
  std::vector<CodePointRange> cut;
  for (auto [low, high] : ranges) {
    high = std::min(high, kMaxCodePoint);
    if (low > high) continue;
    if (low < kFirstSurrogate) {
      cut.emplace_back(low, std::min(high, kFirstSurrogate - 1));
    }
    if (high > kLastSurrogate) {
      cut.emplace_back(std::max(low, kLastSurrogate + 1), high);
    }
  }
  std::sort(cut.begin(), cut.end());
  std::vector<CodePointRange> merged;
  for (const auto& [low, high] : cut) {
    if (!merged.empty() && low <= merged.back().second + 1) {
      merged.back().second = std::max(merged.back().second, high);
    } else {
      merged.emplace_back(low, high);
    }
  }
  return merged;
}

std::vector<CodePointRange> Complement(
    const std::vector<CodePointRange>& ranges) {
  std::vector<CodePointRange> rest;
  uint32_t next = 0;
  for (const auto& [low, high] : ranges) {
    if (low > next) rest.emplace_back(next, low - 1);
    next = high + 1;
  }
  if (next <= kMaxCodePoint) rest.emplace_back(next, kMaxCodePoint);
  return Normalize(std::move(rest));
}

void AppendUtf8Sequences(CodePointRange range,
                         std::vector<Utf8Sequence>* sequences) {
  auto [low, high] = range;
  while (low <= high) {
    const int length = EncodedLength(low);
    const uint32_t end = std::min(high, kLengthLimits[length - 1]);
    AppendSameLength(low, end, length, sequences);
    low = end + 1;
  }
}

}  // namespace nexus::llm
