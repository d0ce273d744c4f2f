// Fuzz target: bodies of requests. One is read, or the first wrong field is
// named.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nexus/base/check.h"
#include "nexus/serve/openai_chat.h"
#include "nexus/serve/responses_api.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace serve = nexus::serve;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto body = nexus::ParseJson(text, "body", {.max_bytes = 65536});
  if (!body.ok()) return 0;
  {
    serve::ChatRequest request;
    const auto error = serve::ParseChatRequest(*body, &request);
    NEXUS_CHECK(error.has_value() || !request.messages.empty());
    NEXUS_CHECK(!error.has_value() || !error->message.empty());
  }
  {
    serve::ChatRequest request;
    nexus::Json echo;
    const auto error = serve::ParseResponsesRequest(*body, &request, &echo);
    NEXUS_CHECK(error.has_value() || !request.messages.empty());
    NEXUS_CHECK(!error.has_value() || !error->message.empty());
  }
  return 0;
}
