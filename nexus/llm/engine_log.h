// Where llama.cpp's messages go, and how an error finds its cause among them.
//
// The engine reports failures as a null pointer and a line in its log. A
// capture on the calling thread keeps the lines that explain it, so that a
// Status can say more than "failed". Internal to nexus/llm.
#ifndef NEXUS_LLM_ENGINE_LOG_H_
#define NEXUS_LLM_ENGINE_LOG_H_

#include <string>

namespace nexus::llm {

// Starts the engine's backends and takes over its log, once a process.
// Thread-safe; every entry point into the engine calls it first.
void InitEngine();

// Collects warnings and errors that the engine logs on this thread while the
// object lives. Captures nest; the innermost one gets the lines.
class EngineLogCapture {
 public:
  EngineLogCapture();
  ~EngineLogCapture();
  EngineLogCapture(const EngineLogCapture&) = delete;
  EngineLogCapture& operator=(const EngineLogCapture&) = delete;

  // The last error lines joined by "; ", without the engine's function names;
  // the last warning when there was no error; "no reason given" without either.
  std::string LastErrors() const;
  bool Contains(const std::string& text) const;

 private:
  friend void HandleEngineLine(int level, const char* text);
  void Append(int level, const std::string& line);

  EngineLogCapture* outer_;
  std::string errors_;
  std::string warning_;
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_ENGINE_LOG_H_
