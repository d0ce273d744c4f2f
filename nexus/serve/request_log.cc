#include "nexus/serve/request_log.h"

#include <cmath>
#include <utility>

#include "nexus/engine/tier.h"

namespace nexus::serve {
namespace {

// Far more than can be at work at once. An outcome whose client had gone before
// it came waits for an answer that was logged already.
constexpr size_t kMaxChats = 10000;

// Paths come from anybody.
constexpr size_t kLongestPath = 200;

double Tenths(double ms) { return std::round(ms * 10) / 10; }

std::string Cut(const std::string& text, size_t longest) {
  return text.size() <= longest ? text : text.substr(0, longest) + "...";
}

}  // namespace

Json ToJson(const RequestRecord& record) {
  const net::AnsweredRequest& request = record.request;
  Json json = {{"request_id", request.id},
               {"peer", request.peer},
               {"method", Cut(request.method, kLongestPath)},
               {"path", Cut(request.path, kLongestPath)},
               {"status", request.status},
               {"duration_ms", Tenths(request.duration_ms)}};
  if (!record.chat.has_value()) return json;
  const RequestRecord::Chat& chat = *record.chat;
  json["tier"] = std::string(chat.tier);
  json["call"] = chat.is_call;
  json["prompt_tokens"] = chat.usage.prompt_tokens;
  json["cached_tokens"] = chat.usage.cached_tokens;
  json["completion_tokens"] = chat.usage.completion_tokens;
  json["queue_ms"] = Tenths(chat.queue_ms);
  json["ttft_ms"] = Tenths(chat.ttft_ms);
  return json;
}

std::string ToText(const RequestRecord& record) {
  const net::AnsweredRequest& request = record.request;
  std::string text = Cut(request.method, kLongestPath) + " " +
                     Cut(request.path, kLongestPath) + " " +
                     std::to_string(request.status) + " in " +
                     std::to_string(std::lround(request.duration_ms)) + " ms";
  if (record.chat.has_value()) {
    const RequestRecord::Chat& chat = *record.chat;
    text += ", " + std::string(chat.tier) + ", " +
            std::to_string(chat.usage.prompt_tokens) + " tokens (" +
            std::to_string(chat.usage.cached_tokens) + " cached) and " +
            std::to_string(chat.usage.completion_tokens) +
            ", the first after " + std::to_string(std::lround(chat.ttft_ms)) +
            " ms";
  }
  return text + ", " + request.id;
}

void RequestLog::NoteChat(const ChatOutcome& outcome) {
  MutexLock lock(mutex_);
  if (chats_.size() >= kMaxChats) chats_.clear();
  chats_[outcome.request_id] = {.tier = engine::TierName(outcome.tier.tier),
                                .is_call = outcome.is_call,
                                .usage = outcome.usage,
                                .queue_ms = outcome.queue_ms,
                                .ttft_ms = outcome.ttft_ms};
}

void RequestLog::NoteAnswer(const net::AnsweredRequest& request) {
  RequestRecord record{.request = request, .chat = std::nullopt};
  {
    MutexLock lock(mutex_);
    const auto chat = chats_.find(request.id);
    if (chat != chats_.end()) {
      record.chat = chat->second;
      chats_.erase(chat);
    }
  }
  sink_(record);
}

}  // namespace nexus::serve
