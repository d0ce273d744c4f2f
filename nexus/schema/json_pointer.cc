#include "nexus/schema/json_pointer.h"

#include <charconv>
#include <string>
#include <string_view>

namespace nexus::schema {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "~1" is "/", "~0" is "~"; a reference is a URI fragment, so "%25" is "%".
std::string Unescape(std::string_view token) {
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '~' && i + 1 < token.size() &&
        (token[i + 1] == '0' || token[i + 1] == '1')) {
      text.push_back(token[++i] == '0' ? '~' : '/');
    } else if (token[i] == '%' && i + 2 < token.size() &&
               HexDigit(token[i + 1]) >= 0 && HexDigit(token[i + 2]) >= 0) {
      text.push_back(static_cast<char>(HexDigit(token[i + 1]) * 16 +
                                       HexDigit(token[i + 2])));
      i += 2;
    } else {
      text.push_back(token[i]);
    }
  }
  return text;
}

const Json* Child(const Json& parent, const std::string& token) {
  if (parent.is_object()) {
    const auto it = parent.find(token);
    return it == parent.end() ? nullptr : &*it;
  }
  if (!parent.is_array()) return nullptr;
  size_t index = 0;
  const char* end = token.data() + token.size();
  const auto [stop, error] = std::from_chars(token.data(), end, index);
  if (error != std::errc() || stop != end || index >= parent.size()) {
    return nullptr;
  }
  return &parent[index];
}

}  // namespace

const Json* ResolveRef(const Json& root, const Json& ref) {
  if (!ref.is_string()) return nullptr;
  std::string_view rest = ref.get_ref<const std::string&>();
  if (!rest.starts_with('#')) return nullptr;
  rest.remove_prefix(1);
  const Json* value = &root;
  while (!rest.empty()) {
    if (!rest.starts_with('/')) return nullptr;
    rest.remove_prefix(1);
    const size_t end = rest.find('/');
    value = Child(*value, Unescape(rest.substr(0, end)));
    if (value == nullptr) return nullptr;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end);
  }
  return value;
}

}  // namespace nexus::schema
