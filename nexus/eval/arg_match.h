// A call's arguments against the accepted values of a label.
//
// The rules are those of BFCL's AST check, so that figures can be compared:
// strings without case and without the marks ` ,./-_*^`, numbers by value,
// arrays in order, and "" among the accepted values of an argument where it may
// be left out. An argument that the label doesn't name is an error, even where
// the schema has it.
#ifndef NEXUS_EVAL_ARG_MATCH_H_
#define NEXUS_EVAL_ARG_MATCH_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/json.h"

namespace nexus::eval {

// What the fields of an object inside an accepted value hold. The two can't be
// told apart where a field is an array, so the data set has to say.
enum class ObjectLabels {
  kValues,    // the one right value: {"city": "Paris"}
  kAccepted,  // a list of accepted ones, BFCL: {"city": ["Paris", "Paris, FR"]}
};

struct ArgMatch {
  // One line a fault, "<argument>: what"; empty: the call is right.
  std::vector<std::string> faults;
  // Optional arguments that the query gives no reason for: not in the label, or
  // in it as one that may be left out, with a value that isn't accepted.
  int invented_optional = 0;

  bool exact() const { return faults.empty(); }
};

// `accepted` is {argument: [accepted values]}. `parameters` is the tool's
// schema and decides which arguments are optional. Anything malformed in the
// three is a fault of the match, never a crash.
ArgMatch MatchArguments(const Json& arguments, const Json& accepted,
                        const Json& parameters, ObjectLabels labels);

// Whether two values are the same to the check; `accepted` is one value.
bool SameValue(const Json& value, const Json& accepted, ObjectLabels labels);

// Kinds of argument that the rates are split by. The first three are of the
// arguments that the label names; `optional` is of the tool, since a parameter
// that may be left out is one that can be invented.
struct ArgClasses {
  bool enumeration = false;
  bool object = false;  // an object, or an array of them
  bool array = false;
  bool optional = false;
};
ArgClasses ClassifyArguments(const Json& accepted, const Json& parameters);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ARG_MATCH_H_
