#include "nexus/schema/schema_frame.h"

#include <utility>

#include "nexus/schema/ir_signature.h"

namespace nexus::schema {
namespace {

bool Has(std::string_view text, std::string_view marker) {
  return text.find(marker) != std::string_view::npos;
}

// Where a turn of each role begins and ends.
struct Turns {
  std::string system_open;
  std::string user_open;
  std::string assistant_open;
  std::string close;            // of system and user turns
  std::string assistant_close;  // of the model's own turns
};

Turns ChatMlTurns() {
  return {
      .system_open = "<|im_start|>system\n",
      .user_open = "<|im_start|>user\n",
      .assistant_open = "<|im_start|>assistant\n",
      .close = "<|im_end|>\n",
      .assistant_close = "<|im_end|>\n",
  };
}

Turns Llama3Turns() {
  return {
      .system_open = "<|start_header_id|>system<|end_header_id|>\n\n",
      .user_open = "<|start_header_id|>user<|end_header_id|>\n\n",
      .assistant_open = "<|start_header_id|>assistant<|end_header_id|>\n\n",
      .close = "<|eot_id|>",
      .assistant_close = "<|eot_id|>",
  };
}

// No system role: what the system would say stands in a user turn.
Turns GemmaTurns() {
  return {
      .system_open = "<start_of_turn>user\n",
      .user_open = "<start_of_turn>user\n",
      .assistant_open = "<start_of_turn>model\n",
      .close = "<end_of_turn>\n",
      .assistant_close = "<end_of_turn>\n",
  };
}

Turns MistralTurns() {
  return {
      .system_open = "[INST]",
      .user_open = "[INST]",
      .assistant_open = "",
      .close = "[/INST]",
      .assistant_close = "</s>",
  };
}

Turns PhiTurns() {
  return {
      .system_open = "<|system|>\n",
      .user_open = "<|user|>\n",
      .assistant_open = "<|assistant|>\n",
      .close = "<|end|>\n",
      .assistant_close = "<|end|>\n",
  };
}

Turns GraniteTurns() {
  return {
      .system_open = "<|start_of_role|>system<|end_of_role|>",
      .user_open = "<|start_of_role|>user<|end_of_role|>",
      .assistant_open = "<|start_of_role|>assistant<|end_of_role|>",
      .close = "<|end_of_text|>\n",
      .assistant_close = "<|end_of_text|>\n",
  };
}

Turns PlainTurns() {
  return {
      .system_open = "",
      .user_open = "User: ",
      .assistant_open = "Assistant: ",
      .close = "\n\n",
      .assistant_close = "\n\n",
  };
}

// What all families share; the caller adds block, call and result.
SchemaFrame FrameWith(const Turns& turns) {
  SchemaFrame frame;
  frame.head_prefix = turns.system_open;
  frame.head_suffix = turns.close;
  frame.block_separator = "\n";
  frame.ir_prefix = turns.system_open + "# Tools\n\n";
  frame.ir_suffix = "\n" + turns.close;
  frame.user_prefix = turns.user_open;
  frame.user_suffix = turns.close;
  frame.call_prefix = turns.assistant_open + "{\"name\": ";
  frame.call_infix = ", \"arguments\": ";
  frame.call_suffix = "}" + turns.assistant_close;
  frame.answer_prefix = turns.assistant_open;
  frame.answer_suffix = turns.assistant_close;
  frame.result_prefix = turns.user_open + "Tool result:\n";
  frame.result_suffix = turns.close;
  return frame;
}

// The instruction of the Hermes format, word for word as Qwen2.5's and its
// successors' templates have it, in a system turn of its own.
SchemaFrame HermesFrame() {
  const Turns turns = ChatMlTurns();
  SchemaFrame frame = FrameWith(turns);
  frame.block_prefix =
      turns.system_open +
      "# Tools\n\nYou may call one or more functions to assist with the user "
      "query.\n\nYou are provided with function signatures within "
      "<tools></tools> XML tags:\n<tools>\n";
  frame.block_suffix =
      "\n</tools>\n\nFor each function call, return a json object with "
      "function name and arguments within <tool_call></tool_call> XML tags:\n"
      "<tool_call>\n{\"name\": <function-name>, \"arguments\": "
      "<args-json-object>}\n</tool_call>" +
      turns.close;
  frame.ir_prefix = turns.system_open + "# Tools\n\n<tools>\n";
  frame.ir_suffix = "\n</tools>" + turns.close;
  frame.call_prefix = turns.assistant_open + "<tool_call>\n{\"name\": ";
  frame.call_suffix = "}\n</tool_call>" + turns.assistant_close;
  frame.result_prefix = turns.user_open + "<tool_response>\n";
  frame.result_suffix = "\n</tool_response>" + turns.close;
  return frame;
}

SchemaFrame Llama3Frame() {
  const Turns turns = Llama3Turns();
  SchemaFrame frame = FrameWith(turns);
  frame.block_prefix =
      turns.system_open +
      "You have access to the following functions. To call a function, please "
      "respond with JSON for a function call.Respond in the format {\"name\": "
      "function name, \"parameters\": dictionary of argument name and its "
      "value}.Do not use variables.\n\n";
  frame.block_separator = "\n\n";
  frame.block_suffix = "\n\n" + turns.close;
  frame.call_infix = ", \"parameters\": ";
  frame.result_prefix = "<|start_header_id|>ipython<|end_header_id|>\n\n";
  return frame;
}

// Gemma 3's model card gives this wording for function calling; its template
// has none.
SchemaFrame GemmaFrame() {
  const Turns turns = GemmaTurns();
  SchemaFrame frame = FrameWith(turns);
  frame.block_prefix =
      turns.system_open +
      "You have access to functions. If you decide to invoke any of the "
      "function(s), you MUST put it in the format of\n{\"name\": function "
      "name, \"parameters\": dictionary of argument name and its value}\n\nYou "
      "SHOULD NOT include any other text in the response if you call a "
      "function\n[";
  frame.block_separator = ", ";
  frame.block_suffix = "]" + turns.close;
  frame.call_infix = ", \"parameters\": ";
  return frame;
}

// The one family whose template shows the tools late by itself: before the last
// user turn.
SchemaFrame MistralFrame() {
  const Turns turns = MistralTurns();
  SchemaFrame frame = FrameWith(turns);
  frame.block_prefix = "[AVAILABLE_TOOLS][";
  frame.block_separator = ", ";
  frame.block_suffix = "][/AVAILABLE_TOOLS]";
  frame.ir_prefix = "[AVAILABLE_TOOLS]";
  frame.ir_suffix = "[/AVAILABLE_TOOLS]";
  frame.call_prefix = "[TOOL_CALLS][{\"name\": ";
  frame.call_suffix = "}]" + turns.assistant_close;
  frame.result_prefix = "[TOOL_RESULTS]{\"content\": ";
  frame.result_suffix = "}[/TOOL_RESULTS]";
  return frame;
}

// For models that were never shown a tool format: says it in one sentence.
SchemaFrame GenericFrame(const Turns& turns) {
  SchemaFrame frame = FrameWith(turns);
  frame.block_prefix =
      turns.system_open +
      "# Tools\n\nTo use a tool, answer with one JSON object {\"name\": "
      "<tool-name>, \"arguments\": <args-json-object>} and nothing else.\n\n";
  frame.block_suffix = "\n" + turns.close;
  return frame;
}

SchemaFrame GraniteFrame() {
  const Turns turns = GraniteTurns();
  SchemaFrame frame = GenericFrame(turns);
  frame.block_prefix = "<|start_of_role|>available_tools<|end_of_role|>[";
  frame.block_separator = ", ";
  frame.block_suffix = "]" + turns.close;
  frame.call_prefix = turns.assistant_open + "<|tool_call|>[{\"name\": ";
  frame.call_suffix = "}]" + turns.assistant_close;
  frame.result_prefix = "<|start_of_role|>tool<|end_of_role|>";
  return frame;
}

SchemaFrame Named(SchemaFrame frame, std::string family, std::string reason) {
  frame.family = std::move(family);
  frame.reason = std::move(reason);
  return frame;
}

std::string Render(std::string_view prefix, std::string_view separator,
                   std::string_view suffix, std::span<const ToolSchema> tools,
                   std::string (*text_of)(const ToolSchema&)) {
  std::string text(prefix);
  bool is_first = true;
  for (const ToolSchema& tool : tools) {
    if (!std::exchange(is_first, false)) text.append(separator);
    text.append(text_of(tool));
  }
  text.append(suffix);
  return text;
}

}  // namespace

SchemaFrame FrameFor(std::string_view chat_template,
                     std::string_view architecture) {
  const std::string model =
      " (architecture '" + std::string(architecture) + "')";
  if (chat_template.empty()) {
    return Named(GenericFrame(PlainTurns()), "plain",
                 "the model has no chat template" + model);
  }
  if (Has(chat_template, "<|im_start|>")) {
    // Qwen3-Coder and Qwen3.5 wrap XML parameters in <tool_call>; a JSON call
    // is what Nexus forces, so these get the same frame, and the reason says
    // so.
    if (Has(chat_template, "<function=")) {
      return Named(HermesFrame(), "hermes",
                   "the template has <|im_start|> and <tool_call>, but calls "
                   "in XML: a JSON call is forced instead");
    }
    if (Has(chat_template, "<tool_call>")) {
      return Named(HermesFrame(), "hermes",
                   "the template has <|im_start|> and <tool_call>");
    }
    return Named(HermesFrame(), "chatml",
                 "the template has <|im_start|> and no tool format: Hermes' "
                 "is used");
  }
  if (Has(chat_template, "<|start_header_id|>")) {
    return Named(Llama3Frame(), "llama3",
                 "the template has <|start_header_id|>");
  }
  if (Has(chat_template, "<start_of_turn>")) {
    return Named(GemmaFrame(), "gemma",
                 "the template has <start_of_turn> and no system role");
  }
  if (Has(chat_template, "[AVAILABLE_TOOLS]")) {
    return Named(MistralFrame(), "mistral",
                 "the template has [AVAILABLE_TOOLS]");
  }
  if (Has(chat_template, "[INST]")) {
    return Named(GenericFrame(MistralTurns()), "inst",
                 "the template has [INST] and no tool format");
  }
  if (Has(chat_template, "<|start_of_role|>")) {
    return Named(GraniteFrame(), "granite",
                 "the template has <|start_of_role|>");
  }
  if (Has(chat_template, "<|user|>") && Has(chat_template, "<|end|>")) {
    return Named(GenericFrame(PhiTurns()), "phi",
                 "the template has <|user|> and <|end|>");
  }
  return Named(GenericFrame(PlainTurns()), "plain",
               "no known marker in the chat template" + model);
}

std::string RenderBlock(const SchemaFrame& frame,
                        std::span<const ToolSchema> tools) {
  return Render(frame.block_prefix, frame.block_separator, frame.block_suffix,
                tools, &ModelText);
}

std::string RenderIrBlock(const SchemaFrame& frame,
                          std::span<const ToolSchema> tools) {
  return Render(frame.ir_prefix, "\n", frame.ir_suffix, tools, &IrSignature);
}

std::string RenderCallPreamble(const SchemaFrame& frame,
                               std::string_view tool_name) {
  return frame.call_prefix + DumpJson(Json(std::string(tool_name))) +
         frame.call_infix;
}

}  // namespace nexus::schema
