// Parts of a request that several of OpenAI's APIs have in common.
#ifndef NEXUS_SERVE_REQUEST_FIELDS_H_
#define NEXUS_SERVE_REQUEST_FIELDS_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/serve/field_reader.h"
#include "nexus/serve/openai_chat.h"

namespace nexus::serve {

// A string, null, or a list of parts of these types, each with its text in the
// field "text" ("refusal" for a part of that type).
void ReadTextParts(const Json& object, std::string_view path, const char* key,
                   std::initializer_list<std::string_view> types,
                   FieldReader* read, std::string* text);

// `name` and `arguments` of a call in a conversation.
void ReadCall(const Json& function, std::string_view path, FieldReader* read,
              llm::ToolCall* call);

void ReadTool(const Json& value, const std::string& path, FieldReader* read,
              std::vector<schema::ToolSchema>* tools);
void ReadToolList(const Json& body, FieldReader* read,
                  std::vector<schema::ToolSchema>* tools);
// "auto", "none" or "required"; the tools must have been read.
void ReadToolChoiceName(const Json& choice, std::string_view path,
                        FieldReader* read, ChatRequest* request);

// temperature, top_p and seed.
void ReadSampling(const Json& body, FieldReader* read, ChatRequest* request);
// How many alternatives to each token; 0 where the field is absent.
int ReadTopLogprobs(const Json& body, FieldReader* read);
void ReadTokenLimit(const Json& body, const char* key, FieldReader* read,
                    ChatRequest* request);

// Nexus's own field.
void ReadNexus(const Json& body, FieldReader* read, ChatRequest* request);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_REQUEST_FIELDS_H_
