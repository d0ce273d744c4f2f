// Exchange: a client's chat request and a remote's answer, with the calls of
// the answer checked on the way.
//
// Words go out as they come. From the first piece of a call on a stream is held
// back until the calls are whole and fit the client's full schemas; if they
// don't, the remote is told what is wrong and asked once more, and its second
// answer takes their place where it is better. What is right goes out as it
// came.
//
// Where one tool alone went out and has to be called, nothing goes out before
// it is known whether a call comes. Some servers take `required` and hold their
// model to nothing: their words are dropped for the arguments that the model
// writes when it is asked for JSON by the tool's schema, if those are right.
#ifndef NEXUS_REMOTE_EXCHANGE_H_
#define NEXUS_REMOTE_EXCHANGE_H_

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/remote/answer_parts.h"
#include "nexus/remote/chat_client.h"
#include "nexus/remote/remote_error.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::remote {

struct ExchangeRequest {
  Json body;  // as it goes out
  bool is_stream = false;
  // The client's tools, for the check. Empty: nothing is checked.
  std::span<const schema::ToolSchema> tools;
  // Full entries of a repair round's `tools`, at the same places as `tools`.
  const Json* entries = nullptr;
  // Place in `tools` of the only one that went out, where it has to be called.
  std::optional<size_t> must_call;
  std::chrono::steady_clock::time_point deadline;
  std::function<bool()> should_cancel;
};

struct CallReport {
  std::string tool;
  bool is_valid = false;
  std::string problem;  // of one that isn't
};

struct ExchangeReport {
  std::string replica;
  int attempts = 0;  // of all rounds
  int repair_rounds = 0;
  std::vector<CallReport> calls;  // as they went out
  std::string repair_error;       // why a repair round came to nothing
  std::chrono::nanoseconds first_byte_at{0};  // of Clock::Monotonic()
};

// Used by one thread.
class Exchange {
 public:
  Exchange(ChatClient* client, const ExchangeRequest& request)
      : client_(client), request_(request) {}

  // nullopt: the answer is in `whole`, or has gone to `emit` (false: nobody
  // reads it any more). Else why there is none, or no more of it.
  std::optional<RemoteError> Run(const std::function<bool(Json&&)>& emit,
                                 Json* whole);
  // So far.
  const ExchangeReport& report() const { return report_; }

 private:
  ChatReply Send(const Json& body, bool is_stream,
                 const std::function<bool(Json&&)>& on_chunk);
  std::optional<RemoteError> RunWhole(Json* whole);
  std::optional<RemoteError> RunStream(const std::function<bool(Json&&)>& emit);
  // The calls that are to go out instead; empty: those that came.
  std::vector<RemoteCall> CheckAndRepair(const std::vector<RemoteCall>& calls);
  // The call that has to come and didn't; empty: it doesn't come this way
  // either.
  std::vector<RemoteCall> ForceCall();

  ChatClient* const client_;
  const ExchangeRequest request_;
  ExchangeReport report_;
  Json repair_usage_;  // of the repair round; null: none
};

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_EXCHANGE_H_
