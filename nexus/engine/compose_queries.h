// Questions with known answers for composed lists, and the lists to ask them
// on.
//
// A query file has one JSON object a line:
//   {"query": "...", "gold": ["tool"], "args": {"param": [accepted, ...]}}
// gold: names (or server/name) of the tools that would be right. args is
// optional and belongs to the first of them; null among the accepted values
// lets the parameter be left out, and parameters that aren't named must be.
#ifndef NEXUS_ENGINE_COMPOSE_QUERIES_H_
#define NEXUS_ENGINE_COMPOSE_QUERIES_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct ComposeQuery {
  std::string query;
  std::vector<std::string> gold;
  Json accepted_args;  // null: not known
};

// kNotFound, kIoError; kInvalidArgument with path, line and field.
Result<std::vector<ComposeQuery>> ReadComposeQueries(const std::string& path);

// Numbers are compared by value, texts without case, spaces and the characters
// ,./-_*^'" (as the Berkeley leaderboard does it), everything else exactly.
bool ArgumentsAccepted(const Json& arguments, const Json& accepted);

struct ComposeList {
  std::vector<size_t> tools;    // indices, in canonical order
  std::vector<size_t> queries;  // indices: those with a right answer in it
};

struct ComposeListOptions {
  int blocks = 5;
  int queries = 40;  // in all
  // Of the lists, the `part`th of each `parts`: 1 of 1 is all of them.
  int part = 1;
  int parts = 1;
};

// Lists of `blocks` tools that answer one question after the other: the first
// question not yet asked brings its tool, the next ones theirs until the list
// is full (tools that no question wants fill up the last one), and all
// questions that the list answers are asked on it. No two tools of one name in
// a list. Questions whose tool isn't there are left out; kInvalidArgument when
// none is left or there are too few tools.
//
// The lists come in an order of their own, always the same, so that the first
// ones are a sample of all of them however the questions are sorted. Which
// lists there are doesn't depend on `queries`: asking more goes on where asking
// fewer has ended.
Result<std::vector<ComposeList>> MakeComposeLists(
    std::span<const schema::ToolSchema> tools,
    std::span<const ComposeQuery> queries, const ComposeListOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSE_QUERIES_H_
