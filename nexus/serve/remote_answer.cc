#include "nexus/serve/remote_answer.h"

#include <utility>

#include "nexus/base/clock.h"
#include "nexus/serve/report_json.h"

namespace nexus::serve {
namespace {

// How late a client's leaving may be noticed.
constexpr std::chrono::milliseconds kLookInterval{20};

remote::ExchangeRequest RequestOf(const RemoteJob& job,
                                  std::function<bool()> should_cancel) {
  remote::ExchangeRequest request;
  request.body = job.outgoing;
  request.is_stream = job.request.stream;
  request.tools = job.request.tools;
  request.entries = &job.entries;
  if (!job.tools.sends_all && job.tools.pick.must_call &&
      job.tools.pick.tools.size() == 1) {
    request.must_call = job.tools.pick.tools.front();
  }
  request.deadline = job.deadline;
  request.should_cancel = std::move(should_cancel);
  return request;
}

bool IsLast(const Json& chunk) {
  const auto choices = chunk.find("choices");
  if (choices == chunk.end() || choices->empty()) return false;
  const auto reason = choices->front().find("finish_reason");
  return reason != choices->front().end() && !reason->is_null();
}

}  // namespace

ApiError FromRemoteError(const remote::RemoteError& error) {
  ApiError ours;
  ours.status = error.status;
  ours.type = error.type;
  ours.message = error.message;
  ours.param = error.param;
  ours.code = error.code;
  if (error.retry_after.count() > 0) {
    ours.retry_after_s = static_cast<int>(
        std::chrono::ceil<std::chrono::seconds>(error.retry_after).count());
  }
  return ours;
}

RemoteAnswer::RemoteAnswer(remote::ChatClient* client, RemoteJob job)
    : client_(client),
      job_(std::move(job)),
      exchange_(client_, RequestOf(job_, [this] {
                  return is_cancelled_ ||
                         (!job_.request.stream && job_.is_client_gone &&
                          job_.is_client_gone());
                })) {}

RemoteAnswer::~RemoteAnswer() {
  is_cancelled_ = true;
  pipe_.Close();
  if (getter_.joinable()) getter_.join();
}

void RemoteAnswer::MakeOurs(Json* body) const {
  (*body)["id"] = job_.head.id;
  (*body)["model"] = job_.head.model;
}

Json RemoteAnswer::Report() const {
  const remote::ExchangeReport& got = exchange_.report();
  const auto since = [this](std::chrono::nanoseconds time) {
    return time.count() == 0 ? Json(nullptr)
                             : Json(Milliseconds(time - job_.arrived_at));
  };
  Json calls = Json::array();
  for (const remote::CallReport& call : got.calls) {
    calls.push_back({{"tool", call.tool},
                     {"valid", call.is_valid},
                     {"invalid_reason", call.problem},
                     {"repair_rounds", got.repair_rounds}});
  }
  const auto sent = job_.outgoing.find("tools");
  return {{"tier", "remote"},
          {"reasons", {"the KV cache of a remote can't be written"}},
          {"mode", std::string(ToolsModeName(job_.mode))},
          {"backend",
           {{"url", got.replica},
            {"attempts", got.attempts},
            {"repair_error", got.repair_error}}},
          {"tools",
           {{"given", job_.request.tools.size()},
            {"sent", sent == job_.outgoing.end() ? 0 : sent->size()},
            {"schema",
             job_.form == remote::SchemaForm::kShort && !job_.tools.sends_all
                 ? "short"
                 : "full"}}},
          {"route", job_.tools.decision.has_value()
                        ? RouteJson(*job_.tools.decision)
                        : Json(nullptr)},
          {"call", calls.empty() ? Json(nullptr) : calls.front()},
          {"calls", calls},
          {"ms",
           {{"route", job_.tools.route_ms},
            {"first_byte", since(got.first_byte_at)},
            {"total", since(Clock::Monotonic().Now())}}}};
}

std::optional<Json> RemoteAnswer::Whole(ApiError* error) {
  Json whole;
  if (const auto failed = exchange_.Run({}, &whole)) {
    *error = FromRemoteError(*failed);
    return std::nullopt;
  }
  MakeOurs(&whole);
  if (job_.request.wants_report) whole["nexus"] = Report();
  return whole;
}

void RemoteAnswer::GetStream() {
  Json unused;
  const auto failed = exchange_.Run(
      [this](Json&& chunk) {
        MakeOurs(&chunk);
        if (job_.request.wants_report && IsLast(chunk)) {
          chunk["nexus"] = Report();
        }
        return pipe_.Push("data: " + DumpJson(chunk) + "\n\n");
      },
      &unused);
  if (failed.has_value()) {
    pipe_.End(FromRemoteError(*failed));
  } else {
    pipe_.End(std::nullopt);
  }
}

std::optional<std::string> RemoteAnswer::Next() {
  if (first_.has_value()) return std::exchange(first_, std::nullopt);
  while (true) {
    if (auto piece = pipe_.Pop(kLookInterval)) return piece;
    if (pipe_.has_ended()) return std::nullopt;
    if (job_.is_client_gone && job_.is_client_gone()) is_cancelled_ = true;
  }
}

bool RemoteAnswer::AwaitFirst(ApiError* error) {
  getter_ = std::thread([this] { GetStream(); });
  first_ = Next();
  if (first_.has_value()) return true;
  const auto failed = pipe_.error();
  if (!failed.has_value()) return true;  // an answer of no chunks
  *error = *failed;
  return false;
}

bool RemoteAnswer::Stream(const net::StreamWriter& write) {
  while (auto piece = Next()) {
    if (!write(*piece)) return false;
  }
  if (const auto failed = pipe_.error()) {
    return write("data: " + DumpJson(ToJson(*failed)) + "\n\n");
  }
  return write("data: [DONE]\n\n");
}

}  // namespace nexus::serve
