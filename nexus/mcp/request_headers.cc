#include "nexus/mcp/request_headers.h"

#include <algorithm>
#include <cstdlib>

#include "nexus/base/base64.h"
#include "nexus/mcp/json_fields.h"

namespace nexus::mcp {
namespace {

constexpr std::string_view kPrefix = "=?base64?";
constexpr std::string_view kSuffix = "?=";

std::string Encoded(std::string_view text) {
  return std::string(kPrefix) + Base64(text) + std::string(kSuffix);
}

bool LooksEncoded(std::string_view text) {
  return text.size() >= kPrefix.size() + kSuffix.size() &&
         text.starts_with(kPrefix) && text.ends_with(kSuffix);
}

bool IsHeaderByte(char c) { return c == '\t' || (c >= ' ' && c <= '~'); }

bool IsSpace(char c) { return c == ' ' || c == '\t'; }

// A name is written by a server and read by another: it mustn't end the header.
bool IsToken(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) !=
               std::string_view::npos;
  });
}

void Collect(const Json& schema, const Json& arguments,
             std::vector<ParamHeader>* headers) {
  if (!schema.is_object()) return;
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) return;
  for (const auto& [key, property] : properties->items()) {
    Json value;
    if (arguments.is_object()) {
      const auto found = arguments.find(key);
      if (found != arguments.end()) value = *found;
    }
    const std::string name = StringOf(property, "x-mcp-header");
    if (IsToken(name) && (value.is_null() || value.is_string() ||
                          value.is_boolean() || value.is_number_integer())) {
      headers->push_back({"Mcp-Param-" + name, value});
    }
    Collect(property, value, headers);
  }
}

}  // namespace

std::string EncodeHeaderText(std::string_view text) {
  const bool is_plain =
      std::all_of(text.begin(), text.end(), IsHeaderByte) &&
      (text.empty() || (!IsSpace(text.front()) && !IsSpace(text.back()))) &&
      !LooksEncoded(text);
  return is_plain ? std::string(text) : Encoded(text);
}

bool HeaderMeans(std::string_view header, std::string_view text) {
  if (!std::all_of(header.begin(), header.end(), IsHeaderByte)) return false;
  return LooksEncoded(header) ? header == Encoded(text) : header == text;
}

std::optional<std::string> NamedInHeader(const std::string& method,
                                         const Json& params) {
  const char* key = nullptr;
  if (method == "tools/call" || method == "prompts/get") key = "name";
  if (method == "resources/read") key = "uri";
  if (key == nullptr || !params.is_object()) return std::nullopt;
  const auto found = params.find(key);
  if (found == params.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

std::vector<ParamHeader> ParamHeaders(const Json& input_schema,
                                      const Json& arguments) {
  std::vector<ParamHeader> headers;
  Collect(input_schema, arguments, &headers);
  return headers;
}

std::string ParamHeaderText(const Json& value) {
  return value.is_string() ? EncodeHeaderText(value.get<std::string>())
                           : DumpJson(value);
}

bool ParamHeaderMeans(std::string_view header, const Json& value) {
  if (value.is_string()) return HeaderMeans(header, value.get<std::string>());
  if (header == DumpJson(value)) return true;
  if (!value.is_number_integer() || header.empty()) return false;
  const std::string text(header);
  // Not "0x1", "inf" or " 1", which strtod takes too.
  if (text.find_first_not_of("0123456789+-.eE") != std::string::npos) {
    return false;
  }
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end == '\0' && number == value.get<double>();
}

}  // namespace nexus::mcp
