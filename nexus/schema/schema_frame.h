// SchemaFrame: the text around a schema that is shown late in a conversation,
// and around the forced beginning of the call.
//
// Most chat templates render tools only in the first system message (Qwen),
// ignore them (SmolLM2), or don't exist (base models). So the frame comes from
// a small table per family, recognised by the template's own markers, with a
// plain-text fallback. Head, schema block, user turn and call are tokenised
// apart, and the full-prefill reference uses the very same ids.
#ifndef NEXUS_SCHEMA_SCHEMA_FRAME_H_
#define NEXUS_SCHEMA_SCHEMA_FRAME_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/schema/tool_schema.h"

namespace nexus::schema {

struct SchemaFrame {
  std::string family;  // "hermes", "chatml", "llama3", "gemma", "plain", ...
  std::string reason;  // why this family: which marker was found
  // The real head of the model's template: a default system message. Compile
  // contexts begin with it, so that the block's first tokens don't become an
  // attention sink.
  std::string head_prefix;  // + system text + head_suffix
  std::string head_suffix;
  // + ModelText(tool), joined by block_separator + block_suffix. Full schemas
  // come with the call instruction that the model was trained on; signatures
  // with a short one, since the call's form is forced anyway.
  std::string block_prefix;
  std::string block_separator;
  std::string block_suffix;
  std::string ir_prefix;  // + IrSignature(tool) lines + ir_suffix
  std::string ir_suffix;
  std::string user_prefix;  // + question + user_suffix
  std::string user_suffix;
  // + tool name (JSON string) + call_infix + arguments (sampled) + call_suffix.
  // Begins with the opening of the assistant's turn.
  std::string call_prefix;
  std::string call_infix;
  std::string call_suffix;
  // The same, for a free text answer.
  std::string answer_prefix;
  std::string answer_suffix;
  // A tool's result given back to the model.
  std::string result_prefix;
  std::string result_suffix;
};

// `chat_template` is the model's template source, empty for none;
// `architecture` is "general.architecture", named in the reason. No text holds
// the token that the tokenizer itself puts at the very beginning.
SchemaFrame FrameFor(std::string_view chat_template,
                     std::string_view architecture);

// The block's text for full schemas, and for IR signatures (one a line).
std::string RenderBlock(const SchemaFrame& frame,
                        std::span<const ToolSchema> tools);
std::string RenderIrBlock(const SchemaFrame& frame,
                          std::span<const ToolSchema> tools);
// call_prefix + "name" + call_infix: what is forced before the arguments.
std::string RenderCallPreamble(const SchemaFrame& frame,
                               std::string_view tool_name);

}  // namespace nexus::schema

#endif  // NEXUS_SCHEMA_SCHEMA_FRAME_H_
