#include "nexus/schema/canonical_json.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace nexus::schema {
namespace {

struct Style {
  bool sort_keys;
  std::string_view item_separator;
  std::string_view key_separator;
};

void Append(const Json& value, const Style& style, std::string* out);

void AppendMember(const std::string& key, const Json& value, const Style& style,
                  bool is_first, std::string* out) {
  if (!is_first) out->append(style.item_separator);
  out->append(DumpJson(Json(key)));
  out->append(style.key_separator);
  Append(value, style, out);
}

void AppendObject(const Json& object, const Style& style, std::string* out) {
  bool is_first = true;
  if (!style.sort_keys) {
    for (const auto& [key, value] : object.items()) {
      AppendMember(key, value, style, std::exchange(is_first, false), out);
    }
    return;
  }
  std::vector<std::pair<std::string_view, const Json*>> members;
  members.reserve(object.size());
  for (auto it = object.begin(); it != object.end(); ++it) {
    members.emplace_back(it.key(), &it.value());
  }
  std::sort(members.begin(), members.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, value] : members) {
    AppendMember(std::string(key), *value, style,
                 std::exchange(is_first, false), out);
  }
}

// Recursion is bounded: every Json here was parsed under a depth limit.
void Append(const Json& value, const Style& style, std::string* out) {
  if (value.is_object()) {
    out->push_back('{');
    AppendObject(value, style, out);
    out->push_back('}');
  } else if (value.is_array()) {
    out->push_back('[');
    bool is_first = true;
    for (const Json& item : value) {
      if (!std::exchange(is_first, false)) out->append(style.item_separator);
      Append(item, style, out);
    }
    out->push_back(']');
  } else {
    out->append(DumpJson(value));
  }
}

}  // namespace

std::string SortedCompactText(const Json& value) {
  std::string out;
  Append(value,
         {.sort_keys = true, .item_separator = ",", .key_separator = ":"},
         &out);
  return out;
}

std::string SpacedText(const Json& value) {
  std::string out;
  Append(value,
         {.sort_keys = false, .item_separator = ", ", .key_separator = ": "},
         &out);
  return out;
}

int LevelCount(const Json& value) {
  if (!value.is_structured()) return 0;
  int deepest = 0;
  for (const Json& item : value) deepest = std::max(deepest, LevelCount(item));
  return deepest + 1;
}

}  // namespace nexus::schema
