// Finds the weights that scripts/test pulls before it runs the e2e tests.
#ifndef NEXUS_LLM_E2E_MODELS_FOR_TEST_H_
#define NEXUS_LLM_E2E_MODELS_FOR_TEST_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "nexus/base/file_system.h"
#include "nexus/llm/model.h"

namespace nexus::llm {

inline std::string SmolLm2Path() {
  const char* folder = std::getenv("NEXUS_TEST_MODELS");
  return (folder != nullptr ? std::string(folder)
                            : UserCacheDir() + "/models") +
         "/SmolLM2-135M-Instruct-Q4_1.gguf";
}

// A missing file fails the test: scripts/test pulls it first.
inline Result<std::shared_ptr<const Model>> LoadSmolLm2(
    const ModelOptions& options = {}) {
  ModelOptions with_path = options;
  with_path.path = SmolLm2Path();
  auto model = Model::Load(with_path);
  if (!model.ok()) {
    return model.status().WithContext(
        "run scripts/test, or set NEXUS_TEST_MODELS to the folder");
  }
  return model;
}

}  // namespace nexus::llm

#endif  // NEXUS_LLM_E2E_MODELS_FOR_TEST_H_
