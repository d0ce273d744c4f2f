#include "nexus/schema/ir_type.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "nexus/schema/json_pointer.h"

namespace nexus::schema::internal {
namespace {

// Past these bounds an ellipsis stands for the rest. The grammar still holds
// the model to the whole enum and the whole object; the signature only has to
// show what kind of value is meant.
constexpr size_t kMaxEnumValues = 8;
constexpr size_t kMaxEnumBytes = 72;
constexpr size_t kMaxMembers = 8;
constexpr int kMaxNesting = 3;
constexpr size_t kMaxDefaultBytes = 24;
constexpr std::string_view kEllipsis = "\u2026";

struct TypeWord {
  std::string_view schema_name;
  std::string_view ir_name;
};
// With the spellings of the Python-minded collections.
constexpr auto kTypeWords = std::to_array<TypeWord>({
    {"string", "str"},
    {"str", "str"},
    {"integer", "int"},
    {"int", "int"},
    {"number", "num"},
    {"float", "num"},
    {"boolean", "bool"},
    {"bool", "bool"},
    {"array", "list"},
    {"list", "list"},
    {"tuple", "list"},
    {"object", "obj"},
    {"dict", "obj"},
    {"null", "null"},
    {"any", "any"},
});
constexpr auto kFormats = std::to_array<TypeWord>({
    {"date", "date"},
    {"date-time", "datetime"},
    {"time", "time"},
    {"email", "email"},
    {"uri", "url"},
    {"url", "url"},
    {"uuid", "uuid"},
});

template <size_t N>
std::string_view Lookup(const std::array<TypeWord, N>& words,
                        std::string_view name) {
  for (const TypeWord& word : words) {
    if (word.schema_name == name) return word.ir_name;
  }
  return {};
}

bool IsTypeWord(std::string_view text) {
  const auto has = [&](const auto& words) {
    return std::any_of(words.begin(), words.end(), [&](const TypeWord& word) {
      return word.ir_name == text;
    });
  };
  return has(kTypeWords) || has(kFormats);
}

bool IsPlain(std::string_view text, std::string_view forbidden) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return false;
  return std::none_of(text.begin(), text.end(), [&](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F ||
           forbidden.find(c) != std::string_view::npos;
  });
}

std::string Quoted(std::string_view text) {
  return DumpJson(Json(std::string(text)));
}

// An enum value or a default. Strings are bare unless that reads as syntax, as
// a type or as another JSON value: "1" is not 1.
std::string Value(const Json& value) {
  if (!value.is_string()) {
    return value.is_structured() ? Quoted(DumpJson(value)) : DumpJson(value);
  }
  const std::string& text = value.get_ref<const std::string&>();
  const bool is_ambiguous = Json::accept(text) || IsTypeWord(text) ||
                            text.find(kEllipsis) != std::string::npos;
  return !is_ambiguous && IsPlain(text, "\"|,()[]{}=?\\") ? text : Quoted(text);
}

std::string EnumText(const Json& values) {
  std::string text;
  size_t shown = 0;
  for (const Json& value : values) {
    const std::string next = Value(value);
    if (shown == kMaxEnumValues ||
        (shown > 0 && text.size() + next.size() > kMaxEnumBytes)) {
      text.append("|").append(kEllipsis);
      break;
    }
    if (shown++ > 0) text.push_back('|');
    text.append(next);
  }
  return text;
}

// "=3", or empty where a default is absent or says nothing.
std::string Default(const Json& schema) {
  if (!schema.is_object()) return {};
  const auto it = schema.find("default");
  if (it == schema.end() || it->is_null() || it->is_structured() ||
      (it->is_string() && it->get_ref<const std::string&>().empty())) {
    return {};
  }
  std::string value = Value(*it);
  if (value.size() > kMaxDefaultBytes) return {};
  return "=" + value;
}

class TypeWriter {
 public:
  explicit TypeWriter(const Json& root) : root_(root) {}

  // "str" for a string.
  std::string Type(const Json& schema, int depth) const {
    if (!schema.is_object() || depth > kMaxNesting) return "any";
    if (const auto ref = schema.find("$ref"); ref != schema.end()) {
      const Json* target = ResolveRef(root_, *ref);
      // The depth ends a cycle.
      return target == nullptr ? "any" : Type(*target, depth + 1);
    }
    if (const auto it = schema.find("enum");
        it != schema.end() && it->is_array() && !it->empty()) {
      return EnumText(*it);
    }
    if (const auto it = schema.find("const"); it != schema.end()) {
      return Value(*it);
    }
    for (const char* key : {"anyOf", "oneOf"}) {
      const auto it = schema.find(key);
      if (it != schema.end() && it->is_array() && !schema.contains("type")) {
        return Union(*it, depth);
      }
    }
    if (const auto it = schema.find("allOf");
        it != schema.end() && it->is_array() && it->size() == 1) {
      return Type(it->front(), depth + 1);
    }
    return Declared(schema, depth);
  }

  std::string Members(const Json& object, std::string_view separator,
                      int depth) const {
    const auto properties = object.find("properties");
    if (properties == object.end() || !properties->is_object()) return {};
    std::string text;
    size_t shown = 0;
    for (const auto& [name, schema] : properties->items()) {
      if (shown > 0) text.append(separator);
      if (depth > 0 && shown == kMaxMembers) {
        text.append(kEllipsis);
        break;
      }
      ++shown;
      text.append(IrName(name));
      if (!IsRequired(object, name)) text.push_back('?');
      const std::string type = Type(schema, depth + 1);
      if (type != "str") text.append(":").append(type);
      text.append(Default(schema));
    }
    return text;
  }

 private:
  static bool IsRequired(const Json& object, const std::string& name) {
    const auto required = object.find("required");
    return required != object.end() && required->is_array() &&
           std::find(required->begin(), required->end(), name) !=
               required->end();
  }

  std::string Union(const Json& alternatives, int depth) const {
    std::vector<std::string> texts;
    for (const Json& alternative : alternatives) {
      std::string text = Type(alternative, depth + 1);
      // A nullable parameter is one that may be left out.
      if (text == "null" ||
          std::find(texts.begin(), texts.end(), text) != texts.end()) {
        continue;
      }
      texts.push_back(std::move(text));
    }
    if (texts.empty()) return "null";
    std::string joined = texts.front();
    for (size_t i = 1; i < texts.size(); ++i) {
      joined.append("|").append(texts[i]);
    }
    return joined;
  }

  std::string Declared(const Json& schema, int depth) const {
    const auto type = schema.find("type");
    if (type == schema.end()) {
      if (schema.contains("properties")) return Object(schema, depth);
      return schema.contains("items") ? Array(schema, depth) : "any";
    }
    if (type->is_array()) {
      Json alternatives = Json::array();
      for (const Json& one : *type) {
        Json copy = schema;
        copy["type"] = one;
        alternatives.push_back(std::move(copy));
      }
      return Union(alternatives, depth);
    }
    if (!type->is_string()) return "any";
    const std::string_view word =
        Lookup(kTypeWords, type->get_ref<const std::string&>());
    if (word == "list") return Array(schema, depth);
    if (word == "obj") return Object(schema, depth);
    if (word == "str") {
      const auto format = schema.find("format");
      if (format != schema.end() && format->is_string()) {
        const std::string_view known =
            Lookup(kFormats, format->get_ref<const std::string&>());
        if (!known.empty()) return std::string(known);
      }
    }
    return word.empty() ? "any" : std::string(word);
  }

  std::string Object(const Json& schema, int depth) const {
    const std::string members = Members(schema, ",", depth);
    return members.empty() ? "obj" : "{" + members + "}";
  }

  std::string Array(const Json& schema, int depth) const {
    const auto items = schema.find("items");
    if (items == schema.end() || !items->is_object()) return "list";
    const std::string item = Type(*items, depth + 1);
    return item.find('|') != std::string::npos && item.front() != '{'
               ? "(" + item + ")[]"
               : item + "[]";
  }

  const Json& root_;
};

}  // namespace

std::string IrName(std::string_view name) {
  const bool is_bare = IsPlain(name, "\"|,()[]{}=?:\\ ") &&
                       name.find(kEllipsis) == std::string_view::npos;
  return is_bare ? std::string(name) : Quoted(name);
}

std::string IrMembers(const Json& object, const Json& root,
                      std::string_view separator) {
  return TypeWriter(root).Members(object, separator, 0);
}

}  // namespace nexus::schema::internal
