// Fuzz target: a tool as a stranger's server describes it, through everything
// that is made of it before a model sees it. The parts of the input that stand
// under "tool" and "arguments", else the whole as a tool.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nexus/base/check.h"
#include "nexus/schema/argument_validator.h"
#include "nexus/schema/ir_signature.h"
#include "nexus/schema/schema_lowering.h"
#include "nexus/schema/tool_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace schema = nexus::schema;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = nexus::ParseJson(text, "input", {.max_bytes = 65536});
  if (!json.ok()) return 0;
  const nexus::Json* described = &*json;
  const nexus::Json* arguments = &*json;
  if (json->is_object() && json->contains("tool")) {
    described = &(*json)["tool"];
    if (json->contains("arguments")) arguments = &(*json)["arguments"];
  }
  const auto tool = schema::ParseTool(*described, "server", "input");
  if (!tool.ok()) {
    NEXUS_CHECK(!tool.status().message().empty());
    return 0;
  }
  // Canonical: what is made of the canonical form is the same.
  const std::string canonical = schema::CanonicalText(*tool);
  const auto again_json = nexus::ParseJson(canonical, "canonical");
  NEXUS_CHECK(again_json.ok());
  const auto again = schema::ParseTool(*again_json, "server", "canonical");
  NEXUS_CHECK(again.ok());
  NEXUS_CHECK(schema::CanonicalText(*again) == canonical);
  (void)schema::IrSignature(*tool);
  (void)schema::TwinKey(*tool);
  (void)schema::internal::LowerSchema(tool->parameters);
  const auto validator = schema::ArgumentValidator::Create(tool->parameters);
  if (validator.ok()) (void)(*validator)->Validate(*arguments);
  return 0;
}
