// Arguments against the full schema, by valijson; and the schema that a grammar
// can be made from.
#ifndef NEXUS_SCHEMA_ARGUMENT_VALIDATOR_H_
#define NEXUS_SCHEMA_ARGUMENT_VALIDATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::schema {

// Thread-safe: one Validate after the other.
class ArgumentValidator {
 public:
  // kInvalidArgument when the schema itself is unusable ($ref cycles, remote
  // $ref, malformed keywords): the message says where. Unknown keywords are
  // ignored.
  static Result<std::unique_ptr<ArgumentValidator>> Create(
      const Json& parameters);
  ~ArgumentValidator();
  ArgumentValidator(const ArgumentValidator&) = delete;
  ArgumentValidator& operator=(const ArgumentValidator&) = delete;

  // kInvalidArgument lists the first few violations as "<path>: what", short
  // enough to be shown to the model in the repair round.
  Status Validate(const Json& arguments) const;

 private:
  struct Impl;
  ArgumentValidator();
  std::unique_ptr<Impl> impl_;
};

struct RelaxedSchema {
  Json schema;
  // One line a constraint that was dropped ("properties.x.pattern:
  // look-ahead"); the validator still checks it.
  std::vector<std::string> dropped;
};

// `level` 0 keeps all that llama.cpp's converter is known to handle and drops
// the known poison (pattern with look-around or anchors that it can't do, huge
// maxLength/maxItems, multipleOf, uniqueItems, unknown formats, $ref cycles cut
// to any value); 1 also drops every pattern, format, length and range; 2 keeps
// only types, enums, required and property names; 3 is any object with these
// top-level properties. Closed objects (additionalProperties: false) unless the
// schema explicitly opens them.
RelaxedSchema RelaxForGrammar(const Json& parameters, int level);
inline constexpr int kMaxRelaxLevel = 3;

}  // namespace nexus::schema

#endif  // NEXUS_SCHEMA_ARGUMENT_VALIDATOR_H_
