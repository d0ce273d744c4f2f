// nlohmann/json throws; nothing of that leaves this file. A scan ahead of the
// parser bounds depth and members, so that both errors carry an exact offset
// and cost no memory.
#include "nexus/base/json.h"

#include <exception>
#include <new>
#include <string>
#include <vector>

namespace nexus {
namespace {

// The parser quotes the last token it read, which may be megabytes or not
// UTF-8.
constexpr size_t kMaxDetailBytes = 200;

std::string At(std::string_view source, size_t offset) {
  return std::string(source) + ": JSON at byte " + std::to_string(offset);
}

std::string ReadableDetail(std::string_view what) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
  if (const size_t end = what.find("] "); end != std::string_view::npos) {
    what.remove_prefix(end + 2);
  }
  std::string detail(what.substr(0, kMaxDetailBytes));
  for (char& c : detail) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (what.size() > kMaxDetailBytes) detail += "...";
  return detail;
}

// Up to the first syntax error this scan agrees with the parser on what is a
// string and what is a bracket, and the parser stops there.
Status CheckLimits(std::string_view text, std::string_view source,
                   const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return ResourceExhaustedError(
        std::string(source) + ": JSON of " + std::to_string(text.size()) +
        " bytes, the limit is " + std::to_string(limits.max_bytes));
  }
  struct Level {
    bool is_object;
    size_t commas;
  };
  std::vector<Level> levels;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
      continue;
    }
    if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (levels.size() >= static_cast<size_t>(limits.max_depth)) {
        return InvalidArgumentError(At(source, i) + ": nested deeper than " +
                                    std::to_string(limits.max_depth) +
                                    " levels");
      }
      levels.push_back({c == '{', 0});
    } else if (c == ']' || c == '}') {
      if (!levels.empty()) levels.pop_back();
    } else if (c == ',' && !levels.empty()) {
      Level& level = levels.back();
      if (level.is_object && ++level.commas >= limits.max_object_members) {
        return InvalidArgumentError(
            At(source, i) + ": an object with more than " +
            std::to_string(limits.max_object_members) + " members");
      }
    }
  }
  return Status::Ok();
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view source,
                       const JsonLimits& limits) {
  NEXUS_RETURN_IF_ERROR(CheckLimits(text, source, limits));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    // The parser counts the bytes that it has read, the wrong one included.
    const size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    return InvalidArgumentError(At(source, offset) + ": " +
                                ReadableDetail(error.what()));
  } catch (const std::bad_alloc&) {
    return ResourceExhaustedError(std::string(source) +
                                  ": out of memory while parsing JSON");
  } catch (const std::exception& error) {
    return InvalidArgumentError(std::string(source) +
                                ": JSON: " + ReadableDetail(error.what()));
  }
}

std::string DumpJson(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false,
                    Json::error_handler_t::replace);
}

}  // namespace nexus
