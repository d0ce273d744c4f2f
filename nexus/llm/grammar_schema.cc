#include "nexus/llm/grammar_schema.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "nexus/llm/pattern.h"

namespace nexus::llm {
namespace {

constexpr size_t kMaxSchemaBytes = 512 << 10;
constexpr int kMaxDepth = 64;
// Rules that the converter would make. Nested lists of types multiply.
constexpr uint64_t kMaxVisits = 20000;
// Optional properties cost the converter their number cubed.
constexpr size_t kMaxOptionalProperties = 200;
// The converter copies the whole schema for every distinct reference.
constexpr size_t kMaxReferenceBytes = 32 << 20;
constexpr int kMaxReferenceHops = 16;
// Integer bounds beyond this need more digits than its numbers have.
constexpr double kMaxIntegerBound = 1e15;

bool IsOneOf(std::string_view key,
             std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

bool IsSchemaMap(std::string_view key) {
  return IsOneOf(key, {"properties", "$defs", "definitions",
                       "patternProperties", "dependentSchemas"});
}

// Instance data, not schemas.
bool IsData(std::string_view key) {
  return IsOneOf(key, {"enum", "const", "default", "examples", "example",
                       "required", "type"});
}

class Preparer {
 public:
  explicit Preparer(Json schema) : root_(std::move(schema)) {}

  Result<Json> Run() {
    schema_bytes_ = DumpJson(root_).size();
    if (schema_bytes_ > kMaxSchemaBytes) {
      return UnimplementedError("a schema of " + std::to_string(schema_bytes_) +
                                " bytes is too large for a grammar");
    }
    if (!root_.is_object()) {
      return UnimplementedError("the schema isn't an object");
    }
    uint64_t visits = 0;
    NEXUS_RETURN_IF_ERROR(Visit(root_, "", 0, &visits));
    if (references_.size() * schema_bytes_ > kMaxReferenceBytes) {
      return UnimplementedError(std::to_string(references_.size()) +
                                " references into a schema of " +
                                std::to_string(schema_bytes_) +
                                " bytes are too slow to turn into a grammar");
    }
    return std::move(root_);
  }

 private:
  static Status Refuse(const std::string& path, const std::string& reason) {
    return UnimplementedError("at " + (path.empty() ? "/" : path) + ": " +
                              reason);
  }

  // Rewrites `schema` in place; adds the rules it will cost to `*visits`.
  Status Visit(Json& schema, const std::string& path, int depth,
               uint64_t* visits) {
    if (depth > kMaxDepth) return Refuse(path, "nested too deep");
    if (schema.is_boolean() && schema.get<bool>()) schema = Json::object();
    if (!schema.is_object()) {
      return Refuse(path, "a grammar can't express the schema " +
                              DumpJson(schema).substr(0, 80));
    }
    // The converter reads {} as "an object", but any description as "any
    // value".
    if (schema.empty() && depth > 0) schema["description"] = "";
    FlattenAllOf(schema);
    DropAlternativesOfRequired(schema);
    NEXUS_RETURN_IF_ERROR(CheckReference(schema, path));
    NEXUS_RETURN_IF_ERROR(CheckAllOf(schema, path));
    NEXUS_RETURN_IF_ERROR(RewriteKeywords(schema, path));

    uint64_t below = 1;
    for (auto it = schema.begin(); it != schema.end(); ++it) {
      const std::string& key = it.key();
      const std::string child = path + "/" + key;
      if (IsData(key)) continue;
      if (it->is_array()) {
        for (size_t i = 0; i < it->size(); ++i) {
          if (!(*it)[i].is_object() && !(*it)[i].is_boolean()) continue;
          NEXUS_RETURN_IF_ERROR(Visit((*it)[i], child + "/" + std::to_string(i),
                                      depth + 1, &below));
        }
      } else if (it->is_object() && IsSchemaMap(key)) {
        for (auto item = it->begin(); item != it->end(); ++item) {
          NEXUS_RETURN_IF_ERROR(
              Visit(*item, child + "/" + item.key(), depth + 2, &below));
        }
      } else if (it->is_object()) {
        NEXUS_RETURN_IF_ERROR(Visit(*it, child, depth + 1, &below));
      }
    }
    const auto types = schema.find("type");
    const uint64_t copies =
        types != schema.end() && types->is_array() ? types->size() : 1;
    *visits += below * std::max<uint64_t>(copies, 1);
    if (*visits > kMaxVisits) {
      return Refuse(path, "a grammar would have more than " +
                              std::to_string(kMaxVisits) + " rules");
    }
    return Status::Ok();
  }

  // {"allOf": [x], ...} is x with the rest beside it, as generators write it to
  // put a description on a reference.
  static void FlattenAllOf(Json& schema) {
    const auto all = schema.find("allOf");
    if (all == schema.end() || !all->is_array() || all->size() != 1 ||
        !(*all)[0].is_object()) {
      return;
    }
    const Json only = (*all)[0];
    schema.erase("allOf");
    for (auto it = only.begin(); it != only.end(); ++it) {
      if (!schema.contains(it.key())) schema[it.key()] = it.value();
    }
  }

  // "anyOf": [{"required": ["a"]}, {"required": ["b"]}] beside properties says
  // which of them must be there. The converter would forget the properties.
  static void DropAlternativesOfRequired(Json& schema) {
    if (!schema.contains("properties")) return;
    for (const char* key : {"anyOf", "oneOf"}) {
      const auto alternatives = schema.find(key);
      if (alternatives == schema.end() || !alternatives->is_array()) continue;
      const bool shapes = std::any_of(
          alternatives->begin(), alternatives->end(), [](const Json& item) {
            return item.contains("type") || item.contains("properties") ||
                   item.contains("$ref") || item.contains("enum") ||
                   item.contains("const");
          });
      if (!shapes) schema.erase(key);
    }
  }

  // The schema that a local reference names; nullptr when there is none.
  const Json* Find(const std::string& reference) const {
    const Json* at = &root_;
    size_t start = 2;  // after "#/"
    while (start <= reference.size()) {
      const size_t end = std::min(reference.find('/', start), reference.size());
      const std::string name = reference.substr(start, end - start);
      if (!at->is_object()) return nullptr;
      const auto it = at->find(name);
      if (it == at->end()) return nullptr;
      at = &*it;
      start = end + 1;
    }
    return at;
  }

  Status CheckReference(const Json& schema, const std::string& path) {
    const Json* at = &schema;
    for (int hop = 0; hop < kMaxReferenceHops; ++hop) {
      const auto it = at->find("$ref");
      if (it == at->end()) return Status::Ok();
      if (!it->is_string()) return Refuse(path, "$ref isn't a string");
      const std::string reference = it->get<std::string>();
      if (!reference.starts_with("#/")) {
        return Refuse(path, "reference '" + reference +
                                "' leads out of the schema or to its root");
      }
      references_.insert(reference);
      at = Find(reference);
      if (at == nullptr || !at->is_object()) {
        return Refuse(path, "reference '" + reference + "' leads nowhere");
      }
    }
    return Refuse(path, "references lead in a circle");
  }

  // The converter merges object schemas and intersects enumerations, and drops
  // the rest without a word.
  Status CheckAllOf(const Json& schema, const std::string& path) {
    const auto all = schema.find("allOf");
    if (all == schema.end()) return Status::Ok();
    if (!all->is_array()) return Refuse(path, "allOf isn't an array");
    for (const Json& part : *all) {
      if (!part.is_object()) return Refuse(path, "allOf of a non-schema");
      NEXUS_RETURN_IF_ERROR(CheckReference(part, path));
      const Json* at = &part;
      while (at->contains("$ref")) at = Find((*at)["$ref"].get<std::string>());
      if (!at->contains("properties") && !at->contains("enum")) {
        return Refuse(path, "allOf of something else than objects");
      }
    }
    return Status::Ok();
  }

  static Status RewriteKeywords(Json& schema, const std::string& path) {
    if (const auto it = schema.find("pattern");
        it != schema.end() && it->is_string()) {
      auto pattern = ToGrammarPattern(it->get_ref<const std::string&>());
      if (!pattern.ok()) return Refuse(path, pattern.status().message());
      *it = *std::move(pattern);
    }
    if (const auto it = schema.find("enum");
        it != schema.end() && (!it->is_array() || it->empty())) {
      return Refuse(path, "an enumeration without values");
    }
    NEXUS_RETURN_IF_ERROR(RewriteObject(schema, path));
    for (const char* key :
         {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
      RewriteBound(schema, key);
    }
    for (const char* key : {"minLength", "maxLength", "minItems", "maxItems"}) {
      const auto it = schema.find(key);
      if (it == schema.end()) continue;
      if (!it->is_number() || !(it->get<double>() >= 0.0)) {
        return Refuse(path, std::string(key) + " isn't a count");
      }
      const double count = it->get<double>();
      if (count > 1e6) return Refuse(path, std::string(key) + " is too large");
      *it = static_cast<int64_t>(std::ceil(count));
    }
    return Status::Ok();
  }

  static Status RewriteObject(Json& schema, const std::string& path) {
    const auto properties = schema.find("properties");
    if (properties == schema.end()) return Status::Ok();
    if (!properties->is_object()) return Refuse(path, "properties isn't a map");
    std::set<std::string> required;
    if (const auto it = schema.find("required");
        it != schema.end() && it->is_array()) {
      for (const Json& name : *it) {
        if (name.is_string()) required.insert(name.get<std::string>());
      }
    }
    size_t optional = 0;
    for (auto it = properties->begin(); it != properties->end(); ++it) {
      if (!required.contains(it.key())) ++optional;
    }
    if (optional > kMaxOptionalProperties) {
      return Refuse(path, std::to_string(optional) + " optional properties");
    }
    // The converter's rule for "any other name" lets a lone backslash through.
    // A call needs the declared names only.
    if (!properties->empty()) schema["additionalProperties"] = false;
    return Status::Ok();
  }

  // Whole numbers within what the converter's arithmetic holds. `true` is how
  // draft 4 says exclusive.
  static void RewriteBound(Json& schema, const char* key) {
    const auto it = schema.find(key);
    if (it == schema.end()) return;
    if (!it->is_number() ||
        !(std::abs(it->get<double>()) <= kMaxIntegerBound)) {
      schema.erase(key);
      return;
    }
    const bool lower = std::string_view(key).ends_with("inimum");
    const double value = it->get<double>();
    const bool exclusive = std::string_view(key).starts_with("exclusive");
    // Above 0.5 means from 1 on, which the converter reaches by adding one.
    const double whole =
        lower != exclusive ? std::ceil(value) : std::floor(value);
    *it = static_cast<int64_t>(whole);
  }

  Json root_;
  size_t schema_bytes_ = 0;
  std::set<std::string> references_;
};

}  // namespace

Result<Json> PrepareSchemaForGrammar(const Json& schema) {
  return Preparer(schema).Run();
}

}  // namespace nexus::llm
