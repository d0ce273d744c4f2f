// RelaxForGrammar: the part of a schema that llama.cpp's grammar converter
// turns into the language that is meant. What it would ignore, misread, throw
// on or blow up on is left out and listed; the validator checks that after
// generation.
//
// The converter reads one keyword group a schema, first match wins ($ref,
// anyOf, type list, const, enum, properties, allOf, items, pattern, format,
// length, range), and its grammar parser refuses about 2000 copies of a symbol.
// So the output is written anew, with one group a schema: references inlined,
// allOf merged, type lists as anyOf.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nexus/schema/argument_validator.h"
#include "nexus/schema/grammar_pattern.h"
#include "nexus/schema/json_pointer.h"
#include "nexus/schema/schema_lowering.h"

namespace nexus::schema {
namespace {

constexpr int kMaxNesting = 24;
constexpr int kMaxCoarseNesting = 6;  // from level 2 on
constexpr size_t kMaxSchemas = 4000;  // inlined references multiply
constexpr int64_t kMaxLength = 256;
constexpr int64_t kMaxItems = 128;
constexpr size_t kMaxAlternatives = 32;
constexpr size_t kMaxEnumBytes = 32 << 10;
// The rules of n optional properties hold n² references.
constexpr size_t kMaxOptionalProperties = 128;
// The converter writes ranges digit by digit, up to 15 of them.
constexpr double kMaxBound = 1e15;

Json Typed(std::string_view type) { return Json{{"type", std::string(type)}}; }

// {} means an object to the converter; a schema with only a description is any
// value.
Json AnyValue() { return Json{{"description", "any value"}}; }

bool IsAnyValue(const Json& schema) {
  return schema.size() == 1 && schema.contains("description");
}

const Json* Find(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string Child(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

// The converter builds character classes from the names of open objects without
// escaping them.
bool IsPlainName(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z') || c == '_' || c == '-' || c == '.';
  });
}

class Relaxer {
 public:
  Relaxer(const Json& root, int level, std::vector<std::string>* dropped)
      : root_(root), level_(level), dropped_(dropped) {}

  Json Root() {
    const Json merged = Merged(root_, "");
    // Arguments are an object, whatever a careless author wrote or left out.
    const bool is_union =
        Find(merged, "properties") == nullptr &&
        (Find(merged, "anyOf") != nullptr || Find(merged, "oneOf") != nullptr);
    if (!is_union) return Object(merged, "", 0);
    if (level_ < kMaxRelaxLevel) {
      Json relaxed = Schema(merged, "", 0);
      if (IsObjectUnion(relaxed)) return relaxed;
    }
    Drop("", "anyOf, any object");
    return Typed("object");
  }

 private:
  void Drop(const std::string& path, std::string_view what) {
    std::string line = (path.empty() ? "the top level" : path) + ": ";
    line.append(what);
    if (std::find(dropped_->begin(), dropped_->end(), line) ==
        dropped_->end()) {
      dropped_->push_back(std::move(line));
    }
  }

  static bool IsObjectUnion(const Json& schema) {
    const Json* alternatives = Find(schema, "anyOf");
    return alternatives != nullptr &&
           std::all_of(
               alternatives->begin(), alternatives->end(), [](const Json& one) {
                 return one.contains("properties") ||
                        (one.contains("type") && one["type"] == "object");
               });
  }

  Json Schema(const Json& schema, const std::string& path, int depth) {
    if (++schemas_ > kMaxSchemas) {
      Drop("the top level", "more than " + std::to_string(kMaxSchemas) +
                                " schemas, the rest is any value");
      return AnyValue();
    }
    if (!schema.is_object()) {
      if (schema == Json(false)) Drop(path, "false");
      return AnyValue();
    }
    const int bound = level_ >= 2 ? kMaxCoarseNesting : kMaxNesting;
    if (depth > bound) {
      Drop(path, "nested deeper than " + std::to_string(bound) + " levels");
      return AnyValue();
    }
    const size_t open_references = references_.size();
    const Json merged = Merged(schema, path);
    Json relaxed = Nullable(merged, path, depth);
    references_.resize(open_references);
    return relaxed;
  }

  // References followed, allOf folded in; the author's own keywords win.
  Json Merged(const Json& schema, const std::string& path) {
    Json merged = Json::object();
    Fold(schema, path, &merged, 0);
    return merged;
  }

  void Fold(const Json& schema, const std::string& path, Json* merged,
            int depth) {
    if (!schema.is_object() || depth > kMaxNesting) return;
    if (const Json* ref = Find(schema, "$ref")) {
      const Json* target = ResolveRef(root_, *ref);
      if (target == nullptr) {
        Drop(path, "$ref " + DumpJson(*ref) + " can't be followed");
      } else if (std::find(references_.begin(), references_.end(), target) !=
                 references_.end()) {
        Drop(path, "$ref cycle, any value");
      } else {
        references_.push_back(target);
        Fold(*target, path, merged, depth + 1);
      }
    }
    for (const auto& [key, value] : schema.items()) {
      if (value.is_null() || key == "$ref" || key == "allOf") continue;
      FoldKeyword(key, value, merged);
    }
    const Json* parts = Find(schema, "allOf");
    if (parts == nullptr || !parts->is_array()) return;
    for (const Json& part : *parts) Fold(part, path, merged, depth + 1);
  }

  static void FoldKeyword(const std::string& key, const Json& value,
                          Json* merged) {
    if (!merged->contains(key)) {
      (*merged)[key] = value;
    } else if (key == "properties" && value.is_object() &&
               (*merged)[key].is_object()) {
      for (const auto& [name, property] : value.items()) {
        if (!(*merged)[key].contains(name)) (*merged)[key][name] = property;
      }
    } else if (key == "required" && value.is_array() &&
               (*merged)[key].is_array()) {
      for (const Json& name : value) (*merged)[key].push_back(name);
    }
  }

  Json Nullable(const Json& schema, const std::string& path, int depth) {
    Json relaxed = Union(schema, path, depth);
    const Json* nullable = Find(schema, "nullable");
    if (nullable == nullptr || *nullable != true || IsAnyValue(relaxed)) {
      return relaxed;
    }
    return Json{{"anyOf", Json::array({std::move(relaxed), Typed("null")})}};
  }

  Json Union(const Json& schema, const std::string& path, int depth) {
    DropUnknownToGrammars(schema, path);
    const Json* alternatives = nullptr;
    for (const char* key : {"anyOf", "oneOf"}) {
      const Json* found = Find(schema, key);
      if (found == nullptr) continue;
      if (alternatives != nullptr || !found->is_array() || found->empty() ||
          found->size() > kMaxAlternatives ||
          Find(schema, "properties") != nullptr) {
        // The converter would read this and forget the properties.
        Drop(path, key);
      } else {
        alternatives = found;
      }
    }
    if (const Json* value =
            schema.contains("const") ? &schema["const"] : nullptr) {
      return Json{{"const", *value}};
    }
    if (const Json* values = Find(schema, "enum")) {
      if (auto kept = Enum(*values, path)) return *std::move(kept);
    }
    if (alternatives != nullptr) {
      if (auto kept = Alternatives(schema, *alternatives, path, depth)) {
        return *std::move(kept);
      }
    }
    const Json* type = Find(schema, "type");
    if (type != nullptr && type->is_array() && !type->empty()) {
      return TypeList(schema, *type, path, depth);
    }
    return OfType(schema, TypeOf(schema), path, depth);
  }

  std::optional<Json> Enum(const Json& values, const std::string& path) {
    if (!values.is_array() || values.empty() ||
        DumpJson(values).size() > kMaxEnumBytes) {
      Drop(path, "enum");
      return std::nullopt;
    }
    return Json{{"enum", values}};
  }

  std::optional<Json> Alternatives(const Json& schema, const Json& alternatives,
                                   const std::string& path, int depth) {
    Json list = Json::array();
    for (const Json& alternative : alternatives) {
      // What stands beside anyOf holds for each of its members.
      const size_t open_references = references_.size();
      Json part = Merged(alternative, path);
      for (const char* key : {"type", "items", "format"}) {
        if (schema.contains(key) && !part.contains(key) &&
            !part.contains("enum") && !part.contains("const")) {
          part[key] = schema[key];
        }
      }
      Json relaxed = Schema(part, path, depth + 1);
      references_.resize(open_references);
      if (IsAnyValue(relaxed)) {
        Drop(path, "alternatives without a type");
        return std::nullopt;
      }
      if (std::find(list.begin(), list.end(), relaxed) == list.end()) {
        list.push_back(std::move(relaxed));
      }
    }
    if (list.size() == 1) return list.front();
    return Json{{"anyOf", std::move(list)}};
  }

  Json TypeList(const Json& schema, const Json& types, const std::string& path,
                int depth) {
    Json list = Json::array();
    for (const Json& type : types) {
      Json relaxed = OfType(
          schema,
          type.is_string()
              ? internal::CanonicalType(type.get_ref<const std::string&>())
              : std::string_view(),
          path, depth);
      if (IsAnyValue(relaxed)) return relaxed;
      list.push_back(std::move(relaxed));
    }
    if (list.size() == 1) return list.front();
    return Json{{"anyOf", std::move(list)}};
  }

  // The type that is written, or the one that the other keywords make sense
  // for.
  static std::string_view TypeOf(const Json& schema) {
    if (const Json* type = Find(schema, "type");
        type != nullptr && type->is_string()) {
      return internal::CanonicalType(type->get_ref<const std::string&>());
    }
    const auto has = [&](std::initializer_list<const char*> keys) {
      return std::any_of(keys.begin(), keys.end(), [&](const char* key) {
        return Find(schema, key) != nullptr;
      });
    };
    if (has({"properties", "additionalProperties", "required"}))
      return "object";
    if (has({"items", "prefixItems", "minItems", "maxItems"})) return "array";
    if (has({"pattern", "minLength", "maxLength"})) return "string";
    return {};
  }

  Json OfType(const Json& schema, std::string_view type,
              const std::string& path, int depth) {
    if (type == "object") return Object(schema, path, depth);
    if (type == "array") return Array(schema, path, depth);
    if (type == "string") return String(schema, path);
    if (type == "integer") return Integer(schema, path);
    if (type == "number") {
      for (const char* key :
           {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        if (Find(schema, key) != nullptr) Drop(path, key);
      }
      return Typed(type);
    }
    if (type == "boolean" || type == "null") return Typed(type);
    return AnyValue();
  }

  void DropUnknownToGrammars(const Json& schema, const std::string& path) {
    for (const char* key :
         {"multipleOf", "uniqueItems", "not", "if", "patternProperties",
          "propertyNames", "minProperties", "maxProperties", "contains",
          "dependencies", "dependentRequired", "dependentSchemas",
          "unevaluatedProperties", "unevaluatedItems"}) {
      if (Find(schema, key) != nullptr) Drop(path, key);
    }
  }

  Json Object(const Json& schema, const std::string& path, int depth) {
    const Json* properties = Find(schema, "properties");
    if (properties != nullptr && !properties->is_object()) properties = nullptr;
    const Json* open = Find(schema, "additionalProperties");
    const bool is_open = open != nullptr && *open != false;
    const bool is_root = path.empty() && depth == 0;
    // An object that names nothing is free, except for a tool's arguments.
    if (properties == nullptr && Find(schema, "required") == nullptr &&
        (!is_root || is_open) && (open == nullptr || !open->is_object())) {
      if (open != nullptr && *open == false) {
        return Json{{"type", "object"}, {"additionalProperties", false}};
      }
      return Typed("object");
    }
    const std::vector<std::string> required = Required(schema);
    Json kept = Json::object();
    bool names_are_plain = true;
    size_t optional_count = 0;
    if (properties != nullptr) {
      for (const auto& [name, property] : properties->items()) {
        const bool is_required =
            std::find(required.begin(), required.end(), name) != required.end();
        if (!is_required && ++optional_count > kMaxOptionalProperties) {
          Drop(Child(path, "properties"),
               "more than " + std::to_string(kMaxOptionalProperties) +
                   " optional properties, the rest can't be given");
          continue;
        }
        names_are_plain = names_are_plain && IsPlainName(name);
        kept[name] =
            level_ >= kMaxRelaxLevel
                ? AnyValue()
                : Schema(property, Child(Child(path, "properties"), name),
                         depth + 1);
      }
    }
    for (const std::string& name : required) {
      // Required but never described: any value, or the object could not be
      // valid.
      if (!kept.contains(name)) kept[name] = AnyValue();
    }
    Json relaxed = {{"type", "object"}, {"properties", std::move(kept)}};
    if (!required.empty()) relaxed["required"] = required;
    relaxed["additionalProperties"] =
        is_open ? Open(*open, path, names_are_plain, depth) : Json(false);
    return relaxed;
  }

  Json Open(const Json& open, const std::string& path, bool names_are_plain,
            int depth) {
    if (level_ >= 2 || !names_are_plain) {
      Drop(path, "additionalProperties, closed instead");
      return false;
    }
    if (!open.is_object() || open.empty()) return true;
    Json relaxed = Schema(open, Child(path, "additionalProperties"), depth + 1);
    return IsAnyValue(relaxed) ? Json(true) : relaxed;
  }

  static std::vector<std::string> Required(const Json& schema) {
    std::vector<std::string> names;
    const Json* required = Find(schema, "required");
    if (required == nullptr || !required->is_array()) return names;
    for (const Json& name : *required) {
      if (name.is_string() &&
          std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name.get<std::string>());
      }
    }
    return names;
  }

  Json Array(const Json& schema, const std::string& path, int depth) {
    Json relaxed = Typed("array");
    const auto [least, most] = Sizes(schema, path, "minItems", "maxItems",
                                     kMaxItems, /*keep_below=*/2);
    const Json* items = Find(schema, "items");
    const Json* tuple = Find(schema, "prefixItems");
    if (tuple == nullptr && items != nullptr && items->is_array()) {
      std::swap(tuple, items);
    }
    if (tuple != nullptr && tuple->is_array() && !tuple->empty()) {
      const auto count = static_cast<int64_t>(tuple->size());
      const bool fits = least.value_or(0) <= count &&
                        most.value_or(count) >= count && count <= kMaxItems;
      if (fits && level_ < 2) {
        Json list = Json::array();
        for (const Json& item : *tuple) {
          list.push_back(Schema(item, Child(path, "items"), depth + 1));
        }
        relaxed["prefixItems"] = std::move(list);
        return relaxed;
      }
      Drop(path, "tuple items");
      items = nullptr;
    }
    if (least.has_value() || most.has_value() ||
        (items != nullptr && items->is_object())) {
      relaxed["items"] = items != nullptr
                             ? Schema(*items, Child(path, "items"), depth + 1)
                             : AnyValue();
      if (least.has_value()) relaxed["minItems"] = *least;
      if (most.has_value()) relaxed["maxItems"] = *most;
    }
    return relaxed;
  }

  Json String(const Json& schema, const std::string& path) {
    Json relaxed = Typed("string");
    const auto [least, most] = Sizes(schema, path, "minLength", "maxLength",
                                     kMaxLength, /*keep_below=*/1);
    if (const Json* pattern = Find(schema, "pattern")) {
      auto kept = level_ == 0 && pattern->is_string()
                      ? internal::PatternForGrammar(
                            pattern->get_ref<const std::string&>())
                      : std::nullopt;
      if (kept.has_value()) {
        relaxed["pattern"] = *std::move(kept);
        if (least.has_value() || most.has_value()) {
          Drop(path, "minLength and maxLength beside a pattern");
        }
        return relaxed;
      }
      Drop(path, "pattern");
    }
    if (const Json* format = Find(schema, "format")) {
      const bool is_known = *format == "date" || *format == "time" ||
                            *format == "date-time" || *format == "uuid";
      if (is_known && level_ == 0) {
        relaxed["format"] = *format;
        return relaxed;
      }
      Drop(path, "format " + DumpJson(*format) + ", checked by nobody");
    }
    if (least.has_value()) relaxed["minLength"] = *least;
    if (most.has_value()) relaxed["maxLength"] = *most;
    return relaxed;
  }

  // Both bounds that a grammar can count to; the other one is dropped.
  std::pair<std::optional<int64_t>, std::optional<int64_t>> Sizes(
      const Json& schema, const std::string& path, const char* least_key,
      const char* most_key, int64_t limit, int keep_below) {
    const auto size = [&](const char* key) -> std::optional<int64_t> {
      const Json* value = Find(schema, key);
      if (value == nullptr) return std::nullopt;
      const double number = value->is_number() ? value->get<double>() : -1;
      if (level_ >= keep_below || number < 0 || number != std::floor(number) ||
          number > static_cast<double>(limit)) {
        Drop(path, key);
        return std::nullopt;
      }
      return static_cast<int64_t>(number);
    };
    auto least = size(least_key);
    auto most = size(most_key);
    if (least.has_value() && most.has_value() && *least > *most) {
      Drop(path, std::string(least_key) + " over " + most_key);
      least.reset();
      most.reset();
    }
    if (least == 0) least.reset();
    return {least, most};
  }

  Json Integer(const Json& schema, const std::string& path) {
    Json relaxed = Typed("integer");
    const auto least = Bound(schema, path, "minimum", "exclusiveMinimum", 1);
    const auto most = Bound(schema, path, "maximum", "exclusiveMaximum", -1);
    if (least.has_value() && most.has_value() && *least > *most) {
      Drop(path, "an empty range");
      return relaxed;
    }
    if (least.has_value()) relaxed["minimum"] = *least;
    if (most.has_value()) relaxed["maximum"] = *most;
    return relaxed;
  }

  // The tightest whole number inside both bounds of one side. `inward` is 1 for
  // the lower side, -1 for the upper.
  std::optional<int64_t> Bound(const Json& schema, const std::string& path,
                               const char* inclusive, const char* exclusive,
                               int inward) {
    const auto round = [&](double bound, bool is_exclusive) {
      const double whole = inward > 0 ? std::ceil(bound) : std::floor(bound);
      return is_exclusive && whole == bound ? whole + inward : whole;
    };
    std::optional<double> tightest;
    const auto narrow = [&](double bound) {
      if (!tightest.has_value() || (bound - *tightest) * inward > 0) {
        tightest = bound;
      }
    };
    const Json* plain = Find(schema, inclusive);
    const Json* strict = Find(schema, exclusive);
    if (plain != nullptr && plain->is_number()) {
      // Draft 4: a flag makes the bound beside it exclusive.
      const bool is_flagged = strict != nullptr && *strict == true;
      narrow(round(plain->get<double>(), is_flagged));
    }
    if (strict != nullptr && strict->is_number()) {
      narrow(round(strict->get<double>(), true));
    }
    if (!tightest.has_value()) return std::nullopt;
    if (level_ >= 1 || std::abs(*tightest) >= kMaxBound) {
      Drop(path, plain != nullptr ? inclusive : exclusive);
      return std::nullopt;
    }
    return static_cast<int64_t>(*tightest);
  }

  const Json& root_;
  const int level_;
  std::vector<std::string>* dropped_;
  std::vector<const Json*> references_;
  size_t schemas_ = 0;
};

}  // namespace

RelaxedSchema RelaxForGrammar(const Json& parameters, int level) {
  RelaxedSchema relaxed;
  relaxed.schema = Relaxer(parameters, std::clamp(level, 0, kMaxRelaxLevel),
                           &relaxed.dropped)
                       .Root();
  return relaxed;
}

}  // namespace nexus::schema
