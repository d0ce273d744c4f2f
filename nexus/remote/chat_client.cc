#include "nexus/remote/chat_client.h"

#include <algorithm>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace nexus::remote {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// How late a client's leaving may be noticed.
constexpr milliseconds kLookInterval{20};
// A throttled replica is left alone at least this long, whatever it said.
constexpr milliseconds kLeastCoolDown{100};

double Uniform() {
  thread_local std::minstd_rand engine{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(engine);
}

milliseconds LeftUntil(steady_clock::time_point deadline) {
  return std::chrono::duration_cast<milliseconds>(deadline -
                                                  steady_clock::now());
}

RemoteError OutOfTime(const std::optional<RemoteError>& last) {
  RemoteError error;
  error.status = 504;
  error.code = "backend_timeout";
  error.message = "no answer from any backend within the deadline";
  if (last.has_value()) error.message += "; the last error: " + last->message;
  return error;
}

RemoteError AllThrottled(milliseconds wait) {
  RemoteError error;
  error.status = 429;
  error.type = "rate_limit_error";
  error.code = "rate_limit_exceeded";
  error.message = "all backends have asked to be left alone for a while";
  error.retry_after = wait;
  return error;
}

}  // namespace

bool ChatClient::Pause(const ChatCall& call, milliseconds pause) const {
  if (options_.sleep) return options_.sleep(pause);
  const auto until = steady_clock::now() + pause;
  while (steady_clock::now() < until) {
    if (call.should_cancel && call.should_cancel()) return false;
    std::this_thread::sleep_for(
        std::min(kLookInterval, LeftUntil(until) + milliseconds(1)));
  }
  return true;
}

std::optional<RemoteError> ChatClient::Try(const ChatCall& call, size_t replica,
                                           Json* whole, bool* any_sent) {
  Attempt attempt;
  attempt.body = call.body;
  attempt.is_stream = call.is_stream;
  attempt.timeout = std::max(milliseconds(1), LeftUntil(call.deadline));
  attempt.silence = options_.silence;
  attempt.should_cancel = call.should_cancel;
  attempt.on_chunk = [&](Json&& chunk) {
    *any_sent = true;
    return call.on_chunk(std::move(chunk));
  };
  auto error = pool_->upstream(replica).Complete(attempt, whole);
  using Ending = ReplicaSet::Ending;
  milliseconds cool_down{0};
  Ending ending = Ending::kGood;
  if (error.has_value()) {
    cool_down = error->retry_after;
    if (call.should_cancel && call.should_cancel()) {
      ending = Ending::kAbandoned;
    } else if (error->blames_replica) {
      ending = Ending::kBad;
    } else if (error->status == 429) {
      ending = Ending::kThrottled;
      cool_down = std::max(cool_down, kLeastCoolDown);
    }
  }
  pool_->replicas().GiveBack(replica, ending, cool_down);
  return error;
}

ChatReply ChatClient::Send(const ChatCall& call) {
  ChatReply reply;
  std::vector<size_t> tried;
  int round = 0;
  const auto fail = [&](RemoteError error) {
    reply.error = std::move(error);
    return std::move(reply);
  };
  while (true) {
    if (call.should_cancel && call.should_cancel()) {
      return fail(FromTransport(reply.replica, CancelledError("cancelled")));
    }
    if (LeftUntil(call.deadline).count() <= 0) {
      return fail(OutOfTime(reply.error));
    }
    const ReplicaSet::Choice choice = pool_->replicas().Take(call.key, tried);
    if (!choice.replica.has_value()) {
      // All that are left cool down, or all have been asked.
      milliseconds pause = std::chrono::ceil<milliseconds>(choice.wait);
      if (!tried.empty()) {
        tried.clear();
        pause = BackoffDelay(options_.backoff, round++, Uniform());
        // A replica that was tried may cool down now; Take knows.
      }
      if (pause >= LeftUntil(call.deadline)) {
        return fail(reply.error.has_value() ? *std::move(reply.error)
                                            : AllThrottled(pause));
      }
      if (!Pause(call, pause)) {
        return fail(FromTransport(reply.replica, CancelledError("cancelled")));
      }
      continue;
    }
    ++reply.attempts;
    if (reply.attempts > 1) ++retries_;
    reply.replica = pool_->replicas().names()[*choice.replica];
    bool any_sent = false;
    reply.error = Try(call, *choice.replica, &reply.whole, &any_sent);
    if (!reply.error.has_value() || any_sent || !reply.error->is_retryable ||
        reply.attempts >= options_.max_attempts) {
      return reply;
    }
    tried.push_back(*choice.replica);
  }
}

}  // namespace nexus::remote
