#include "nexus/schema/schema_lowering.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nexus/schema/canonical_json.h"
#include "nexus/schema/json_pointer.h"

namespace nexus::schema::internal {
namespace {

// A chain through references nests as deep as all its targets together;
// valijson recurses along it with some kilobytes a level.
constexpr int kMaxLevelsWithReferences = 512;

// std::regex backtracks in property-name patterns (valijson calls it): only
// those that can't blow up are kept.
bool IsSimplePattern(std::string_view pattern) {
  const auto quantifiers =
      std::count_if(pattern.begin(), pattern.end(),
                    [](char c) { return c == '*' || c == '+' || c == '{'; });
  return pattern.size() <= 200 && quantifiers <= 2 &&
         pattern.find('(') == std::string_view::npos;
}

bool HasHardPatterns(const Json& pattern_properties) {
  if (!pattern_properties.is_object()) return false;
  for (const auto& [pattern, schema] : pattern_properties.items()) {
    if (!IsSimplePattern(pattern)) return true;
  }
  return false;
}

std::string Child(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

Status Malformed(const std::string& path, const std::string& what) {
  return InvalidArgumentError(
      "schema at " + (path.empty() ? "the top level" : path) + ": " + what);
}

class Lowering {
 public:
  explicit Lowering(const Json& root) : root_(root) {}

  Result<Json> Run() {
    levels_ = LevelCount(root_);
    Json lowered;
    NEXUS_RETURN_IF_ERROR(Schema(root_, "", "", &lowered));
    Json definitions = Json::object();
    // Lowering a target may find further references.
    for (size_t i = 0; i < targets_.size(); ++i) {
      const auto [name, target, path] = targets_[i];
      Json definition;
      NEXUS_RETURN_IF_ERROR(Schema(*target, path, name, &definition));
      definitions[name] = std::move(definition);
    }
    NEXUS_RETURN_IF_ERROR(CheckCycles());
    lowered["definitions"] = std::move(definitions);
    return lowered;
  }

 private:
  struct Target {
    std::string name;
    const Json* schema;
    std::string path;
  };

  // `owner` is the definition whose own instance this schema still judges: a
  // reference back to it from here would never consume anything. Empty below
  // properties and items.
  Status Schema(const Json& schema, const std::string& path,
                const std::string& owner, Json* out) {
    *out = Json::object();
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) (*out)["not"] = Json::object();
      return Status::Ok();
    }
    if (!schema.is_object()) {
      return Malformed(path, "expected a schema, found " + DumpJson(schema));
    }
    (*out)[kStepKeyword] = true;
    for (const auto& [key, value] : schema.items()) {
      if (value.is_null() && key != "const") continue;
      NEXUS_RETURN_IF_ERROR(
          Keyword(schema, key, value, Child(path, key), owner, out));
    }
    if (schema.contains("nullable") && schema["nullable"] == true &&
        out->contains("type")) {
      Json& type = (*out)["type"];
      if (type.is_string()) type = Json::array({type});
      type.push_back("null");
    }
    return Status::Ok();
  }

  Status Keyword(const Json& schema, const std::string& key, const Json& value,
                 const std::string& path, const std::string& owner, Json* out) {
    if (key == "$ref") return Reference(value, path, owner, out);
    if (key == "type") return Type(value, path, out);
    if (key == "const") {
      (*out)[key] = value;
      return Status::Ok();
    }
    if (key == "enum" || key == "required") return List(key, value, path, out);
    if (key == "properties") return Map(key, value, path, "", out);
    if (key == "patternProperties") return PatternMap(value, path, out);
    if (key == "additionalProperties" && schema.contains("patternProperties") &&
        HasHardPatterns(schema["patternProperties"])) {
      // Unchecked rather than wrongly refused: any further property is fine.
      return Status::Ok();
    }
    if (key == "additionalProperties" && value == false) {
      // Kept as it is for the sake of the message.
      (*out)[key] = false;
      return Status::Ok();
    }
    if (key == "additionalProperties" || key == "contains" ||
        key == "propertyNames") {
      return Schema(value, path, "", &(*out)[key]);
    }
    if (key == "not" || key == "if" || key == "then" || key == "else") {
      return Schema(value, path, owner, &(*out)[key]);
    }
    if (key == "allOf" || key == "anyOf" || key == "oneOf") {
      return Alternatives(key, value, path, owner, out);
    }
    if (key == "items" || key == "prefixItems") {
      return Items(schema, key, value, path, out);
    }
    if (key == "dependencies" || key == "dependentRequired" ||
        key == "dependentSchemas") {
      return Dependencies(value, path, owner, out);
    }
    if (key == "pattern") {
      if (!value.is_string()) return Malformed(path, "expected a string");
      (*out)[kPatternKeyword] = value;
      return Status::Ok();
    }
    if (key == "uniqueItems") {
      if (!value.is_boolean()) return Malformed(path, "expected a boolean");
      (*out)[key] = value;
      return Status::Ok();
    }
    return Number(schema, key, value, path, out);
  }

  Status Reference(const Json& value, const std::string& path,
                   const std::string& owner, Json* out) {
    if (!value.is_string()) return Malformed(path, "expected a string");
    const std::string& ref = value.get_ref<const std::string&>();
    const Json* target = ResolveRef(root_, value);
    if (target == nullptr) {
      return Malformed(path, ref.starts_with('#')
                                 ? "\"" + ref + "\" names nothing"
                                 : "\"" + ref +
                                       "\" is not local; put the definition "
                                       "into the schema");
    }
    auto [it, is_new] =
        names_.try_emplace(target, "r" + std::to_string(names_.size()));
    if (is_new) {
      levels_ += LevelCount(*target);
      if (levels_ > kMaxLevelsWithReferences) {
        return Malformed(path, "references nest deeper than " +
                                   std::to_string(kMaxLevelsWithReferences) +
                                   " levels");
      }
      targets_.push_back({it->second, target, ref});
    }
    if (!owner.empty()) edges_[owner].insert(it->second);
    // Draft 7 ignores what stands beside a $ref, later drafts don't.
    AllOf(out).push_back({{"$ref", "#/definitions/" + it->second}});
    return Status::Ok();
  }

  static Json& AllOf(Json* out) {
    Json& list = (*out)["allOf"];
    if (list.is_null()) list = Json::array();
    return list;
  }

  static Status Type(const Json& value, const std::string& path, Json* out) {
    const Json names = value.is_array() ? value : Json::array({value});
    Json types = Json::array();
    for (const Json& name : names) {
      const std::string_view type =
          name.is_string() ? CanonicalType(name.get_ref<const std::string&>())
                           : std::string_view();
      if (type.empty()) {
        return Malformed(path, "unknown type " + DumpJson(name));
      }
      if (type == "any") return Status::Ok();
      types.push_back(std::string(type));
    }
    if (types.empty()) return Malformed(path, "an empty list of types");
    (*out)["type"] = types.size() == 1 ? types.front() : types;
    return Status::Ok();
  }

  static Status List(const std::string& key, const Json& value,
                     const std::string& path, Json* out) {
    // Draft 3's and OpenAPI's "required": true beside a property says nothing
    // that a later draft could check here.
    if (key == "required" && value.is_boolean()) return Status::Ok();
    if (!value.is_array()) return Malformed(path, "expected an array");
    Json list = Json::array();
    for (const Json& item : value) {
      if (key == "required" && !item.is_string()) {
        return Malformed(path, "expected names, found " + DumpJson(item));
      }
      list.push_back(item);
    }
    (*out)[key] = std::move(list);
    return Status::Ok();
  }

  Status Map(const std::string& key, const Json& value, const std::string& path,
             const std::string& owner, Json* out) {
    if (!value.is_object()) return Malformed(path, "expected an object");
    Json& map = (*out)[key];
    map = Json::object();
    for (const auto& [name, schema] : value.items()) {
      Json lowered;
      NEXUS_RETURN_IF_ERROR(Schema(schema, Child(path, name), owner, &lowered));
      map[name] = std::move(lowered);
    }
    return Status::Ok();
  }

  Status PatternMap(const Json& value, const std::string& path, Json* out) {
    if (HasHardPatterns(value)) return Status::Ok();
    return Map("patternProperties", value, path, "", out);
  }

  Status Alternatives(const std::string& key, const Json& value,
                      const std::string& path, const std::string& owner,
                      Json* out) {
    if (!value.is_array() || value.empty()) {
      return Malformed(path, "expected an array of schemas");
    }
    Json list = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      Json lowered;
      NEXUS_RETURN_IF_ERROR(
          Schema(value[i], Child(path, std::to_string(i)), owner, &lowered));
      list.push_back(std::move(lowered));
    }
    if (key == "allOf") {
      for (Json& one : list) AllOf(out).push_back(std::move(one));
    } else {
      (*out)[key] = std::move(list);
    }
    return Status::Ok();
  }

  // prefixItems + items (2020-12) are items + additionalItems (draft 7).
  Status Items(const Json& schema, const std::string& key, const Json& value,
               const std::string& path, Json* out) {
    if (key == "items" && !value.is_array()) {
      const char* target =
          schema.contains("prefixItems") ? "additionalItems" : "items";
      Json lowered;
      NEXUS_RETURN_IF_ERROR(Schema(value, path, "", &lowered));
      if (value == Json(false) &&
          target == std::string_view("additionalItems")) {
        lowered = false;
      }
      (*out)[target] = std::move(lowered);
      return Status::Ok();
    }
    if (!value.is_array()) return Malformed(path, "expected an array");
    Json list = Json::array();
    for (size_t i = 0; i < value.size(); ++i) {
      Json lowered;
      NEXUS_RETURN_IF_ERROR(
          Schema(value[i], Child(path, std::to_string(i)), "", &lowered));
      list.push_back(std::move(lowered));
    }
    (*out)["items"] = std::move(list);
    return Status::Ok();
  }

  Status Dependencies(const Json& value, const std::string& path,
                      const std::string& owner, Json* out) {
    if (!value.is_object()) return Malformed(path, "expected an object");
    Json& map = (*out)["dependencies"];
    if (map.is_null()) map = Json::object();
    for (const auto& [name, dependency] : value.items()) {
      Json lowered;
      if (dependency.is_array()) {
        NEXUS_RETURN_IF_ERROR(
            List("required", dependency, Child(path, name), &lowered));
        lowered = lowered["required"];
      } else {
        NEXUS_RETURN_IF_ERROR(
            Schema(dependency, Child(path, name), owner, &lowered));
      }
      map[name] = std::move(lowered);
    }
    return Status::Ok();
  }

  static Status Number(const Json& schema, const std::string& key,
                       const Json& value, const std::string& path, Json* out) {
    constexpr auto kSizes = std::to_array<std::string_view>(
        {"minLength", "maxLength", "minItems", "maxItems", "minProperties",
         "maxProperties"});
    constexpr auto kBounds = std::to_array<std::string_view>(
        {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
         "multipleOf"});
    if (std::find(kSizes.begin(), kSizes.end(), key) != kSizes.end()) {
      if (!value.is_number()) return Malformed(path, "expected a number");
      const double size = value.get<double>();
      if (size < 0 || size != std::floor(size)) {
        return Malformed(path, "expected a size, found " + DumpJson(value));
      }
      // A size past anything that fits is no upper bound.
      if (size > 1e9) return Status::Ok();
      (*out)[key] = static_cast<int64_t>(size);
      return Status::Ok();
    }
    if (std::find(kBounds.begin(), kBounds.end(), key) == kBounds.end()) {
      return Status::Ok();  // unknown keywords, titles, formats
    }
    if (value.is_boolean() && key.starts_with("exclusive")) {
      // Draft 4: a flag on the bound beside it.
      const char* bound = key == "exclusiveMinimum" ? "minimum" : "maximum";
      if (value.get<bool>() && schema.contains(bound) &&
          schema[bound].is_number()) {
        (*out)[key] = schema[bound];
      }
      return Status::Ok();
    }
    if (!value.is_number()) return Malformed(path, "expected a number");
    if (key == "multipleOf" && !(value.get<double>() > 0)) {
      return Malformed(path, "expected a positive number");
    }
    (*out)[key] = value;
    return Status::Ok();
  }

  // A definition that refers to itself without going into a property or an
  // item.
  Status CheckCycles() const {
    std::set<std::string> done;
    for (const Target& target : targets_) {
      std::set<std::string> on_path;
      if (HasCycle(target.name, &on_path, &done)) {
        return Malformed(target.path, "the reference never ends");
      }
    }
    return Status::Ok();
  }

  // Recursion is as deep as there are targets: kMaxLevelsWithReferences.
  bool HasCycle(const std::string& name, std::set<std::string>* on_path,
                std::set<std::string>* done) const {
    if (done->contains(name)) return false;
    if (!on_path->insert(name).second) return true;
    if (const auto it = edges_.find(name); it != edges_.end()) {
      for (const std::string& next : it->second) {
        if (HasCycle(next, on_path, done)) return true;
      }
    }
    on_path->erase(name);
    done->insert(name);
    return false;
  }

  const Json& root_;
  int levels_ = 0;
  std::map<const Json*, std::string> names_;
  std::vector<Target> targets_;
  std::map<std::string, std::set<std::string>> edges_;
};

}  // namespace

std::string_view CanonicalType(std::string_view name) {
  constexpr auto kNames =
      std::to_array<std::pair<std::string_view, std::string_view>>({
          {"string", "string"},
          {"str", "string"},
          {"integer", "integer"},
          {"int", "integer"},
          {"long", "integer"},
          {"number", "number"},
          {"float", "number"},
          {"double", "number"},
          {"boolean", "boolean"},
          {"bool", "boolean"},
          {"array", "array"},
          {"list", "array"},
          {"tuple", "array"},
          {"object", "object"},
          {"dict", "object"},
          {"null", "null"},
          {"any", "any"},
      });
  for (const auto& [spelling, canonical] : kNames) {
    if (spelling == name) return canonical;
  }
  return {};
}

Result<Json> LowerSchema(const Json& parameters) {
  return Lowering(parameters).Run();
}

}  // namespace nexus::schema::internal
