#include "nexus/llm/engine_log.h"

#include <atomic>
#include <cstddef>
#include <mutex>

#include "llama.h"
#include "log.h"

#include "nexus/llm/model.h"

namespace nexus::llm {
namespace {

// A hostile file can make the engine complain once a tensor.
constexpr size_t kMaxCapturedBytes = 1000;

std::atomic<LogSink> g_sink{nullptr};
thread_local EngineLogCapture* t_capture = nullptr;
// A message may come in pieces (GGML_LOG_LEVEL_CONT) until its newline.
thread_local std::string t_line;
thread_local int t_level = GGML_LOG_LEVEL_NONE;

}  // namespace

void HandleEngineLine(int level, const char* text) {
  if (LogSink sink = g_sink.load(std::memory_order_acquire)) sink(level, text);
  if (t_capture == nullptr) return;
  if (level != GGML_LOG_LEVEL_CONT) {
    t_line.clear();
    t_level = level;
  }
  t_line += text;
  if (t_line.empty() || t_line.back() != '\n') return;
  while (!t_line.empty() && t_line.back() == '\n') t_line.pop_back();
  t_capture->Append(t_level, t_line);
  t_line.clear();
}

void InitEngine() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set([](ggml_log_level level, const char* text,
                     void*) { HandleEngineLine(level, text); },
                  nullptr);
    // llama.cpp's "common" library has a logger of its own, which writes to
    // standard error from a thread; no message has a level this low.
    common_log_set_verbosity_thold(-1000);
    llama_backend_init();
  });
}

void SetEngineLogSink(LogSink sink) {
  g_sink.store(sink, std::memory_order_release);
}

EngineLogCapture::EngineLogCapture() : outer_(t_capture) {
  t_capture = this;
  t_line.clear();
}

EngineLogCapture::~EngineLogCapture() { t_capture = outer_; }

void EngineLogCapture::Append(int level, const std::string& line) {
  // "llama_model_load: error loading model: ..." names a C++ function that
  // means nothing to a user.
  size_t start = 0;
  const size_t colon = line.find(": ");
  if (colon != std::string::npos && line.find_first_of(" '\"/") > colon) {
    start = colon + 2;
  }
  const std::string text = line.substr(start);
  if (level == GGML_LOG_LEVEL_ERROR) {
    if (errors_.size() + text.size() > kMaxCapturedBytes) return;
    if (!errors_.empty()) errors_ += "; ";
    errors_ += text;
  } else if (level == GGML_LOG_LEVEL_WARN) {
    warning_ = text.substr(0, kMaxCapturedBytes);
  }
}

std::string EngineLogCapture::LastErrors() const {
  if (!errors_.empty()) return errors_;
  if (!warning_.empty()) return warning_;
  return "no reason given";
}

bool EngineLogCapture::Contains(const std::string& text) const {
  return errors_.find(text) != std::string::npos ||
         warning_.find(text) != std::string::npos;
}

}  // namespace nexus::llm
