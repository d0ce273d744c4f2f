#include "nexus/serve/field_reader.h"

#include <cmath>

namespace nexus::serve {
namespace {

std::string RangeText(double low, double high) {
  return DumpJson(Json(low)) + " to " + DumpJson(Json(high));
}

}  // namespace

std::string FieldPath(std::string_view parent, std::string_view key) {
  if (parent.empty()) return std::string(key);
  return std::string(parent) + "." + std::string(key);
}

std::string ItemPath(std::string_view parent, size_t index) {
  return std::string(parent) + "[" + std::to_string(index) + "]";
}

void FieldReader::Fail(std::string param, std::string message) {
  Fail(BadField(std::move(param), std::move(message)));
}

void FieldReader::Fail(ApiError error) {
  if (!error_.has_value()) error_ = std::move(error);
}

void FieldReader::FailType(std::string param, std::string_view expected,
                           const Json& found) {
  Fail(std::move(param), "expected " + std::string(expected) + ", found " +
                             std::string(found.type_name()));
}

const Json* FieldReader::Find(const Json& object, const char* key) const {
  if (!ok()) return nullptr;
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return nullptr;
  return &*found;
}

const Json* FieldReader::FindArray(const Json& object, std::string_view path,
                                   const char* key, size_t max_items) {
  const Json* found = Find(object, key);
  if (found == nullptr) return nullptr;
  if (!found->is_array()) {
    FailType(FieldPath(path, key), "an array", *found);
    return nullptr;
  }
  if (found->size() > max_items) {
    Fail(FieldPath(path, key), "has " + std::to_string(found->size()) +
                                   " items, at most " +
                                   std::to_string(max_items) + " are taken");
    return nullptr;
  }
  return found;
}

const Json* FieldReader::FindObject(const Json& object, std::string_view path,
                                    const char* key) {
  const Json* found = Find(object, key);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) {
    FailType(FieldPath(path, key), "an object", *found);
    return nullptr;
  }
  return found;
}

void FieldReader::Read(const Json& object, std::string_view path,
                       const char* key, std::string* value) {
  const Json* found = Find(object, key);
  if (found == nullptr) return;
  if (!found->is_string()) {
    FailType(FieldPath(path, key), "a string", *found);
    return;
  }
  *value = found->get<std::string>();
}

void FieldReader::Read(const Json& object, std::string_view path,
                       const char* key, bool* value) {
  const Json* found = Find(object, key);
  if (found == nullptr) return;
  if (!found->is_boolean()) {
    FailType(FieldPath(path, key), "true or false", *found);
    return;
  }
  *value = found->get<bool>();
}

void FieldReader::ReadNumber(const Json& object, const char* key, Range range,
                             float* value) {
  const Json* found = Find(object, key);
  if (found == nullptr) return;
  if (!found->is_number()) {
    FailType(key, "a number", *found);
    return;
  }
  const double number = found->get<double>();
  if (!std::isfinite(number) || number < range.low || number > range.high) {
    Fail(key, "must be from " + RangeText(range.low, range.high) + ", is " +
                  DumpJson(*found));
    return;
  }
  *value = static_cast<float>(number);
}

void FieldReader::ReadInteger(const Json& object, const char* key, Range range,
                              std::optional<int64_t>* value) {
  const Json* found = Find(object, key);
  if (found == nullptr) return;
  if (!found->is_number_integer()) {
    FailType(key, "an integer", *found);
    return;
  }
  // As a double first: an unsigned number may not fit an int64_t.
  const double number = found->get<double>();
  if (number < range.low || number > range.high) {
    Fail(key, "must be from " + RangeText(range.low, range.high) + ", is " +
                  DumpJson(*found));
    return;
  }
  *value = found->get<int64_t>();
}

void FieldReader::RefuseUnless(const Json& object, const char* key,
                               const Json& neutral, std::string_view reason) {
  const Json* found = Find(object, key);
  if (found == nullptr || *found == neutral) return;
  Fail(key, std::string(reason));
}

}  // namespace nexus::serve
