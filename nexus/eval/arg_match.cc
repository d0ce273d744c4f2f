#include "nexus/eval/arg_match.h"

#include <algorithm>
#include <cstddef>

namespace nexus::eval {
namespace {

std::string Normalize(std::string_view text) {
  constexpr std::string_view kIgnored = " ,./-_*^";
  std::string normal;
  normal.reserve(text.size());
  for (char c : text) {
    if (kIgnored.find(c) != std::string_view::npos) continue;
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    normal.push_back(c == '\'' ? '"' : c);
  }
  return normal;
}

// Integers aren't compared as doubles: identifiers above 2^53 would be equal to
// their neighbours.
bool SameNumber(const Json& a, const Json& b) {
  if (a.is_number_float() || b.is_number_float()) {
    return a.get<double>() == b.get<double>();
  }
  return a == b;
}

bool IsEmptyString(const Json& value) {
  return value.is_string() && value.get_ref<const std::string&>().empty();
}

bool MayBeAbsent(const Json& accepted) {
  return accepted.is_array() &&
         std::any_of(accepted.begin(), accepted.end(), IsEmptyString);
}

bool IsAccepted(const Json& value, const Json& accepted, ObjectLabels labels) {
  return accepted.is_array() &&
         std::any_of(accepted.begin(), accepted.end(), [&](const Json& one) {
           return SameValue(value, one, labels);
         });
}

bool SameObject(const Json& value, const Json& accepted, ObjectLabels labels) {
  for (const auto& [name, field] : value.items()) {
    const auto label = accepted.find(name);
    if (label == accepted.end()) return false;
    const bool same = labels == ObjectLabels::kAccepted
                          ? IsAccepted(field, *label, labels)
                          : SameValue(field, *label, labels);
    if (!same) return false;
  }
  for (const auto& [name, label] : accepted.items()) {
    if (value.contains(name)) continue;
    if (labels == ObjectLabels::kValues || !MayBeAbsent(label)) return false;
  }
  return true;
}

bool IsRequired(const Json& parameters, std::string_view name) {
  if (!parameters.is_object()) return false;
  const auto required = parameters.find("required");
  if (required == parameters.end() || !required->is_array()) return false;
  return std::any_of(required->begin(), required->end(), [&](const Json& one) {
    return one.is_string() && one.get_ref<const std::string&>() == name;
  });
}

const Json* FindObject(const Json& parent, const char* key) {
  if (!parent.is_object()) return nullptr;
  const auto child = parent.find(key);
  return child != parent.end() && child->is_object() ? &*child : nullptr;
}

// `type` may be a list, ["object", "null"].
bool HasType(const Json& schema, std::string_view type) {
  const auto found = schema.find("type");
  if (found == schema.end()) return false;
  const auto is_type = [&](const Json& one) {
    return one.is_string() && one.get_ref<const std::string&>() == type;
  };
  if (found->is_array()) {
    return std::any_of(found->begin(), found->end(), is_type);
  }
  return is_type(*found);
}

}  // namespace

bool SameValue(const Json& value, const Json& accepted, ObjectLabels labels) {
  if (value.is_string() && accepted.is_string()) {
    return Normalize(value.get_ref<const std::string&>()) ==
           Normalize(accepted.get_ref<const std::string&>());
  }
  if (value.is_number() && accepted.is_number()) {
    return SameNumber(value, accepted);
  }
  if (value.is_object() && accepted.is_object()) {
    return SameObject(value, accepted, labels);
  }
  if (value.is_array() && accepted.is_array()) {
    return std::equal(
        value.begin(), value.end(), accepted.begin(), accepted.end(),
        [&](const Json& a, const Json& b) { return SameValue(a, b, labels); });
  }
  return value.type() == accepted.type() && value == accepted;
}

ArgMatch MatchArguments(const Json& arguments, const Json& accepted,
                        const Json& parameters, ObjectLabels labels) {
  ArgMatch match;
  if (!arguments.is_object()) {
    match.faults.push_back("arguments: not an object");
    return match;
  }
  if (!accepted.is_object()) {
    match.faults.push_back("label: not an object");
    return match;
  }
  for (const auto& [name, value] : arguments.items()) {
    const auto label = accepted.find(name);
    const bool known = label != accepted.end();
    if (known && IsAccepted(value, *label, labels)) continue;
    match.faults.push_back(known ? name + ": " + DumpJson(value) + " not in " +
                                       DumpJson(*label)
                                 : name + ": not in the label");
    const bool needed = known && !MayBeAbsent(*label);
    if (!needed && !IsRequired(parameters, name)) ++match.invented_optional;
  }
  for (const auto& [name, label] : accepted.items()) {
    if (!arguments.contains(name) && !MayBeAbsent(label)) {
      match.faults.push_back(name + ": missing");
    }
  }
  return match;
}

ArgClasses ClassifyArguments(const Json& accepted, const Json& parameters) {
  ArgClasses classes;
  const Json* properties = FindObject(parameters, "properties");
  if (properties == nullptr) return classes;
  for (const auto& [name, schema] : properties->items()) {
    if (!IsRequired(parameters, name)) classes.optional = true;
    if (!schema.is_object() || !accepted.is_object() ||
        !accepted.contains(name)) {
      continue;
    }
    const Json* items = FindObject(schema, "items");
    classes.array |= HasType(schema, "array");
    classes.object |= HasType(schema, "object") ||
                      (items != nullptr && HasType(*items, "object"));
    classes.enumeration |= schema.contains("enum") ||
                           (items != nullptr && items->contains("enum"));
  }
  return classes;
}

}  // namespace nexus::eval
