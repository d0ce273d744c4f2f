#include "nexus/route/utf8.h"

namespace nexus::route {

CodePoint DecodeUtf8(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) {
    return static_cast<uint8_t>(text[offset + i]);
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1, true};

  size_t length = 0;
  char32_t value = 0;
  char32_t smallest = 0;
  if ((first & 0xE0) == 0xC0) {
    length = 2, value = first & 0x1F, smallest = 0x80;
  } else if ((first & 0xF0) == 0xE0) {
    length = 3, value = first & 0x0F, smallest = 0x800;
  } else if ((first & 0xF8) == 0xF0) {
    length = 4, value = first & 0x07, smallest = 0x10000;
  } else {
    return {};
  }
  if (text.size() - offset < length) return {};
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3F);
  }
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < smallest || value > 0x10FFFF || surrogate) return {};
  return {value, length, true};
}

void AppendUtf8(char32_t value, std::string* out) {
  const auto push = [out](char32_t bits) {
    out->push_back(static_cast<char>(static_cast<uint8_t>(bits)));
  };
  if (value < 0x80) {
    push(value);
  } else if (value < 0x800) {
    push(0xC0 | (value >> 6));
    push(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    push(0xE0 | (value >> 12));
    push(0x80 | ((value >> 6) & 0x3F));
    push(0x80 | (value & 0x3F));
  } else {
    push(0xF0 | (value >> 18));
    push(0x80 | ((value >> 12) & 0x3F));
    push(0x80 | ((value >> 6) & 0x3F));
    push(0x80 | (value & 0x3F));
  }
}

char32_t FoldCase(char32_t value) {
  if (value < 0x80) {
    return value >= 'A' && value <= 'Z' ? value + 32 : value;
  }
  if (value >= 0xC0 && value <= 0xDE && value != 0xD7) return value + 32;
  // Latin Extended-A comes in pairs; which of a pair is upper case changes
  // between the blocks, and a few code points stand alone.
  if ((value >= 0x100 && value <= 0x12F) ||
      (value >= 0x132 && value <= 0x137) ||
      (value >= 0x14A && value <= 0x177)) {
    return value | 1;
  }
  if ((value >= 0x139 && value <= 0x148) ||
      (value >= 0x179 && value <= 0x17E)) {
    return (value & 1) != 0 ? value + 1 : value;
  }
  if (value >= 0x391 && value <= 0x3A9 && value != 0x3A2) return value + 32;
  if (value >= 0x410 && value <= 0x42F) return value + 32;
  if (value >= 0x400 && value <= 0x40F) return value + 80;
  return value;
}

std::string FoldCase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeUtf8(text, i);
    if (c.valid) {
      AppendUtf8(FoldCase(c.value), &out);
    } else {
      out.push_back(text[i]);
    }
    i += c.byte_count;
  }
  return out;
}

CharacterClass Classify(char32_t value) {
  if (value < 0x80) {
    if (value >= 'a' && value <= 'z') return CharacterClass::kLower;
    if (value >= 'A' && value <= 'Z') return CharacterClass::kUpper;
    if (value >= '0' && value <= '9') return CharacterClass::kDigit;
    return CharacterClass::kSeparator;
  }
  // Latin-1 signs, general punctuation and symbols, CJK and fullwidth
  // punctuation.
  if (value < 0xC0 || value == 0xD7 || value == 0xF7 ||
      (value >= 0x2000 && value <= 0x2BFF) ||
      (value >= 0x3000 && value <= 0x3004) ||
      (value >= 0x3007 && value <= 0x3030) ||
      (value >= 0xFF00 && value <= 0xFF0F) ||
      (value >= 0xFF1A && value <= 0xFF20) ||
      (value >= 0xFE00 && value <= 0xFE6F) || value == 0xFEFF) {
    return CharacterClass::kSeparator;
  }
  if ((value >= 0x3040 && value <= 0x30FF) ||  // kana
      (value >= 0x3400 && value <= 0x9FFF) ||  // CJK
      (value >= 0xF900 && value <= 0xFAFF) ||  // compatibility
      (value >= 0x20000 && value <= 0x3FFFF) ||
      (value >= 0x0E00 && value <= 0x0EFF)) {  // Thai, Lao
    return CharacterClass::kIdeograph;
  }
  if (value >= 0xAC00 && value <= 0xD7A3) return CharacterClass::kHangul;
  return FoldCase(value) != value ? CharacterClass::kUpper
                                  : CharacterClass::kLower;
}

}  // namespace nexus::route
