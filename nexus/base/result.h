// Result<T>: a T, or the Status that says why there is none.
#ifndef NEXUS_BASE_RESULT_H_
#define NEXUS_BASE_RESULT_H_

#include <optional>
#include <utility>

#include "nexus/base/check.h"
#include "nexus/base/status.h"

namespace nexus {

template <typename T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return NotFoundError(...);`.
  Result(T value) : value_(std::move(value)) {}         // NOLINT
  Result(Status status) : status_(std::move(status)) {  // NOLINT
    NEXUS_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  // By value from a temporary, which would take the reference with it.
  Status status() && { return std::move(status_); }

  T& value() & {
    NEXUS_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    NEXUS_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    NEXUS_CHECK(ok());
    return *std::move(value_);
  }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace nexus

#define NEXUS_CONCAT_INNER_(a, b) a##b
#define NEXUS_CONCAT_(a, b) NEXUS_CONCAT_INNER_(a, b)

// NEXUS_ASSIGN_OR_RETURN(auto block, BlockReader::Open(path));
#define NEXUS_ASSIGN_OR_RETURN(lhs, expr)                                   \
  NEXUS_ASSIGN_OR_RETURN_IMPL_(NEXUS_CONCAT_(nexus_result_, __LINE__), lhs, \
                               expr)
#define NEXUS_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.status();             \
  lhs = std::move(result).value()

#endif  // NEXUS_BASE_RESULT_H_
