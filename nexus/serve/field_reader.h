// FieldReader: typed fields out of a request's JSON. The first wrong one is
// kept, by its path, and all reads after it do nothing.
#ifndef NEXUS_SERVE_FIELD_READER_H_
#define NEXUS_SERVE_FIELD_READER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nexus/base/json.h"
#include "nexus/serve/api_error.h"

namespace nexus::serve {

// "messages[3]" and "role" give "messages[3].role".
std::string FieldPath(std::string_view parent, std::string_view key);
std::string ItemPath(std::string_view parent, size_t index);

// Thread-compatible.
class FieldReader {
 public:
  bool ok() const { return !error_.has_value(); }
  std::optional<ApiError> TakeError() { return std::exchange(error_, {}); }

  void Fail(std::string param, std::string message);
  void Fail(ApiError error);

  // Null when the field is absent or null, or an earlier one was wrong.
  const Json* Find(const Json& object, const char* key) const;
  // The same, of a kind; wrong kinds are errors. `path`: of the object.
  const Json* FindArray(const Json& object, std::string_view path,
                        const char* key, size_t max_items);
  const Json* FindObject(const Json& object, std::string_view path,
                         const char* key);

  // Absent and null leave `value` as it is.
  void Read(const Json& object, std::string_view path, const char* key,
            std::string* value);
  void Read(const Json& object, std::string_view path, const char* key,
            bool* value);

  struct Range {
    double low = 0;
    double high = 0;
  };
  void ReadNumber(const Json& object, const char* key, Range range,
                  float* value);
  void ReadInteger(const Json& object, const char* key, Range range,
                   std::optional<int64_t>* value);

  // An error when the field is there and isn't `neutral`: what the client wants
  // with it can't be done.
  void RefuseUnless(const Json& object, const char* key, const Json& neutral,
                    std::string_view reason);

 private:
  void FailType(std::string param, std::string_view expected,
                const Json& found);

  std::optional<ApiError> error_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_FIELD_READER_H_
