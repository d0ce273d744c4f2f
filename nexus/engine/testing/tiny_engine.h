// TinyEngine: an engine over a random-weight model in a folder of its own, so
// that tests run every tier for real in milliseconds.
#ifndef NEXUS_ENGINE_TESTING_TINY_ENGINE_H_
#define NEXUS_ENGINE_TESTING_TINY_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/base/test_util.h"
#include "nexus/engine/engine.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::engine::testing {

class TinyEngine {
 public:
  struct Options {
    llm::testing::TinyModelOptions model;
    int context_tokens = 4096;
    bool flash_attention = false;
  };

  static Result<std::unique_ptr<TinyEngine>> Create(const Options& options);

  engine::Engine& engine() { return *engine_; }
  std::string store_dir() const { return dir_.File("store"); }
  std::string model_path() const { return dir_.File("tiny.gguf"); }
  // Where the engine looks for calibrated profiles; Restart() reads them.
  std::string profile_dir() const { return dir_.File("profiles"); }
  // Opens the same files again, as the next start of the program would.
  Status Restart();

 private:
  explicit TinyEngine(Options options) : options_(std::move(options)) {}

  Options options_;
  ScopedTempDir dir_;
  std::unique_ptr<engine::Engine> engine_;
};

// A tool with a few typed parameters; `seed` varies names and texts.
schema::ToolSchema SampleTool(int seed = 0);

std::vector<llm::ChatMessage> SampleConversation(const std::string& question);

}  // namespace nexus::engine::testing

#endif  // NEXUS_ENGINE_TESTING_TINY_ENGINE_H_
