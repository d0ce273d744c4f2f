#include "nexus/serve/answer_writer.h"

#include <utility>

namespace nexus::serve {
namespace {

// How late the end of the time or a client's leaving may be noticed.
constexpr std::chrono::milliseconds kLookInterval{20};

}  // namespace

AnswerWriter::AnswerWriter(std::unique_ptr<AnswerFormat> format,
                           ChatService::Accepted accepted, Caller caller)
    : format_(std::move(format)),
      accepted_(std::move(accepted)),
      caller_(std::move(caller)) {}

AnswerWriter::~AnswerWriter() {
  if (!ended_) accepted_.ticket->Cancel(CancelledError("the client has gone"));
}

void AnswerWriter::Look() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return;
  next_look_ = now + kLookInterval;
  // The work says how it ended: that is the event to wait for.
  if (const Status wanted = caller_.Check(); !wanted.ok()) {
    accepted_.ticket->Cancel(wanted);
  }
}

ChatEvent AnswerWriter::Next() {
  if (first_.has_value()) return *std::exchange(first_, std::nullopt);
  while (true) {
    auto event = accepted_.stream->Pop(kLookInterval);
    // Behind an event too: a quick model has one ready at every turn.
    Look();
    if (!event.has_value()) continue;
    ended_ = event->kind == ChatEvent::Kind::kDone ||
             event->kind == ChatEvent::Kind::kFailed;
    return *std::move(event);
  }
}

std::optional<Json> AnswerWriter::Whole(ApiError* error) {
  while (true) {
    ChatEvent event = Next();
    if (event.kind == ChatEvent::Kind::kDone) {
      return format_->Whole(event.result);
    }
    if (event.kind == ChatEvent::Kind::kFailed) {
      *error = std::move(event.error);
      return std::nullopt;
    }
  }
}

bool AnswerWriter::AwaitFirst(ApiError* error) {
  ChatEvent event = Next();
  if (event.kind == ChatEvent::Kind::kFailed) {
    *error = std::move(event.error);
    return false;
  }
  first_ = std::move(event);
  return true;
}

bool AnswerWriter::Stream(const net::StreamWriter& write) {
  while (true) {
    const ChatEvent event = Next();
    switch (event.kind) {
      case ChatEvent::Kind::kText:
        if (!write(format_->Text(event.text, event.logprobs))) return false;
        break;
      case ChatEvent::Kind::kCallBegin:
        if (!write(format_->CallBegin(event.call))) return false;
        break;
      case ChatEvent::Kind::kCallArguments:
        if (!write(format_->CallArguments(event.text))) return false;
        break;
      case ChatEvent::Kind::kDone:
        return write(format_->Finish(event.result));
      case ChatEvent::Kind::kFailed:
        return write(format_->Fail(event.error));
    }
  }
}

}  // namespace nexus::serve
