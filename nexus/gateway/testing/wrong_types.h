// JSON in which one value is of another type than it should be.
#ifndef NEXUS_GATEWAY_TESTING_WRONG_TYPES_H_
#define NEXUS_GATEWAY_TESTING_WRONG_TYPES_H_

#include <functional>

#include "nexus/base/json.h"

namespace nexus::gateway {

// Calls `visit` with `root` as it is with one of its values, itself included,
// of another type.
inline void ForEachWrongType(const Json& root,
                             const std::function<void(const Json&)>& visit) {
  static const Json kWrong = Json::parse(
      R"([null, true, 7, -1.5, 18446744073709551615, "", "x", [], [{}], {},
          {"a": 1}])");
  const std::function<void(const Json::json_pointer&)> change =
      [&](const Json::json_pointer& at) {
        for (const Json& wrong : kWrong) {
          Json changed = root;
          changed[at] = wrong;
          visit(changed);
        }
        if (!root[at].is_object()) return;
        for (const auto& [key, value] : root[at].items()) change(at / key);
      };
  change(Json::json_pointer());
}

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_TESTING_WRONG_TYPES_H_
