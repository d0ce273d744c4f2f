// Query files: labelled questions, JSON lines of
//
//   {"query": "...", "gold": ["server/name", ...]}
//
// `gold` holds names of tools, with or without their server; an empty one makes
// the question out of scope. Several are all needed, unless "gold_any" is true:
// then any one of them is right. Optional: "id", "set", "part", "split" (what
// tools/train/prepare.py assigns), "related" (tools that are neither right nor
// wrong), and "candidates" with "within": "candidates" (an out-of-scope label
// that is only known to hold for these tools). Labelled arguments are
//
//   "calls": [{"tool": "server/name", "arguments": {"x": [accepted, ...]}}],
//   "object_labels": "accepted" | "values"
//
// with "" among the accepted where the argument may be left out. The fields of
// an object inside an accepted value hold lists of accepted ones themselves
// (BFCL, the default) or the one right value ("values"): see arg_match.h.
// "schema": k in a call means the registry's k-th tool of that name, from 0.
// Other fields are ignored.
#ifndef NEXUS_EVAL_QUERY_FILE_H_
#define NEXUS_EVAL_QUERY_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/eval/arg_match.h"

namespace nexus::eval {

struct LabelledCall {
  std::string tool;  // name or id
  Json arguments;    // {argument: [accepted values]}
  int schema = -1;   // which of the registry's tools of that name; -1: unsaid
};

struct LabelledQuery {
  std::string id;  // its line, "12", when the file gives none
  std::string set;
  std::string part;
  std::string split;
  std::string text;
  std::vector<std::string> gold;
  std::vector<std::string> related;
  // Not empty: the label holds for these tools only.
  std::vector<std::string> within;
  bool gold_any = false;
  std::vector<LabelledCall> calls;
  ObjectLabels object_labels = ObjectLabels::kAccepted;
};

// kNotFound, or kInvalidArgument with file:line. Blank lines are skipped; an
// empty file has no queries; a query's text may be empty.
Result<std::vector<LabelledQuery>> ReadQueryFile(const std::string& path);

struct QueryFilter {
  // Only queries with this split, set or part; empty: any.
  std::string split;
  std::string set;
  std::string part;
  // At most this many, drawn by `seed` and kept in the file's order; 0: all.
  size_t limit = 0;
  uint64_t seed = 1;
};
std::vector<LabelledQuery> FilterQueries(std::vector<LabelledQuery> queries,
                                         const QueryFilter& filter);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_QUERY_FILE_H_
