// ToolEffect: does a tool change anything? To count, apart from other errors, a
// tool that writes chosen where one that reads was asked for.
#ifndef NEXUS_EVAL_TOOL_EFFECT_H_
#define NEXUS_EVAL_TOOL_EFFECT_H_

#include "nexus/schema/tool_schema.h"

namespace nexus::eval {

enum class ToolEffect { kUnknown, kReads, kWrites };

// By the server's annotations; without them by the first verb among the words
// of the name ("get_issue", "createUser", "pulls_list"). An evaluation's guess,
// not a promise: nothing may be run because of it.
ToolEffect EffectOf(const schema::ToolSchema& tool);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_TOOL_EFFECT_H_
