#include "nexus/engine/testing/tiny_engine.h"

#include <utility>

namespace nexus::engine::testing {

Result<std::unique_ptr<TinyEngine>> TinyEngine::Create(const Options& options) {
  std::unique_ptr<TinyEngine> tiny(new TinyEngine(options));
  NEXUS_RETURN_IF_ERROR(
      llm::testing::WriteTinyModel(tiny->model_path(), options.model));
  NEXUS_RETURN_IF_ERROR(tiny->Restart());
  return tiny;
}

Status TinyEngine::Restart() {
  engine_.reset();
  NEXUS_ASSIGN_OR_RETURN(
      engine_, Engine::Create({.model_path = model_path(),
                               .store_dir = store_dir(),
                               .context_tokens = options_.context_tokens,
                               .threads = 1,
                               .flash_attention = options_.flash_attention,
                               .profile_dirs = {profile_dir()}}));
  return Status::Ok();
}

schema::ToolSchema SampleTool(int seed) {
  schema::ToolSchema tool;
  tool.server = "harbour";
  tool.name = "book_berth_" + std::to_string(seed);
  tool.description = "Books a berth for a vessel at the quay.";
  tool.parameters = {
      {"type", "object"},
      {"properties",
       {{"vessel", {{"type", "string"}, {"description", "Name of the vessel"}}},
        {"length", {{"type", "number"}}},
        {"side",
         {{"type", "string"}, {"enum", Json::array({"port", "starboard"})}}},
        {"nights", {{"type", "integer"}, {"minimum", 1}, {"maximum", 30}}}}},
      {"required", Json::array({"vessel", "side"})}};
  return tool;
}

std::vector<llm::ChatMessage> SampleConversation(const std::string& question) {
  return {{.role = "user", .content = "Good morning, is the quay free?"},
          {.role = "assistant", .content = "Yes, until noon."},
          {.role = "user", .content = question}};
}

}  // namespace nexus::engine::testing
