#include "nexus/serve/chat_service.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/serve/answer_generator.h"
#include "nexus/serve/testing/chat_service_fixture.h"

namespace nexus::serve {
namespace {

using ChatServiceTest = ChatServiceFixture;

using engine::testing::SampleTool;
using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;

TEST_F(ChatServiceTest, AnswersInWordsWithoutTools) {
  Start();
  const auto events = Ask(Question("Say something."));
  const ChatResult& result = events.back().result;
  ASSERT_EQ(events.back().kind, ChatEvent::Kind::kDone);
  std::string streamed;
  for (const ChatEvent& event : events) {
    if (event.kind == ChatEvent::Kind::kText) streamed += event.text;
  }
  EXPECT_EQ(result.content, streamed);
  EXPECT_LE(result.usage.completion_tokens, 12);
  EXPECT_GT(result.usage.prompt_tokens, 0);
  EXPECT_EQ(result.report["tier"], "prefill");
}

TEST_F(ChatServiceTest, CallsTheRoutedTool) {
  Start();
  const auto events = Ask(BerthQuestion());
  ASSERT_EQ(events.back().kind, ChatEvent::Kind::kDone)
      << events.back().error.message;
  const ChatResult& result = events.back().result;
  ASSERT_EQ(result.tool_calls.size(), 1U);
  EXPECT_EQ(result.tool_calls[0].name, "book_berth_0");
  EXPECT_EQ(result.finish_reason, "tool_calls");
  const Json arguments = Json::parse(result.tool_calls[0].arguments);
  EXPECT_TRUE(arguments.contains("vessel"));
  EXPECT_EQ(result.report["route"]["tool"], "harbour/book_berth_0");
  EXPECT_EQ(result.report["call"]["valid"], true);
}

TEST_F(ChatServiceTest, FragmentsOfAStreamAreTheArguments) {
  Start();
  ChatRequest request = BerthQuestion();
  request.stream = true;
  const auto events = Ask(request);
  std::string arguments;
  int begun = 0;
  for (const ChatEvent& event : events) {
    if (event.kind == ChatEvent::Kind::kCallBegin) ++begun;
    if (event.kind == ChatEvent::Kind::kCallArguments) {
      EXPECT_EQ(begun, 1);
      arguments += event.text;
    }
  }
  ASSERT_EQ(events.back().kind, ChatEvent::Kind::kDone);
  EXPECT_EQ(arguments, events.back().result.tool_calls[0].arguments);
  // The same request asked for whole has the same arguments.
  EXPECT_EQ(Ask(BerthQuestion()).back().result.tool_calls[0].arguments,
            arguments);
}

TEST_F(ChatServiceTest, ToolChoiceDecides) {
  Start();
  ChatRequest none = BerthQuestion();
  none.tool_choice = ToolChoice::kNone;
  none.max_tokens = 4;
  EXPECT_TRUE(Ask(none).back().result.tool_calls.empty());

  ChatRequest named = BerthQuestion();
  named.tool_choice = ToolChoice::kNamed;
  named.named_tool = "book_berth_1";
  EXPECT_EQ(Ask(named).back().result.tool_calls.at(0).name, "book_berth_1");

  ChatRequest unrelated = Question("zzz qqq");
  unrelated.tools = {SampleTool(0), SampleTool(1)};
  EXPECT_TRUE(Ask(unrelated).back().result.tool_calls.empty());
  unrelated.tool_choice = ToolChoice::kRequired;
  unrelated.max_tokens = 200;
  EXPECT_EQ(Ask(unrelated).back().result.tool_calls.size(), 1U);
}

TEST_F(ChatServiceTest, AToolsResultIsAnsweredFromTheSameSession) {
  Start();
  ChatRequest request = BerthQuestion();
  const ChatResult call = Ask(request).back().result;
  ASSERT_EQ(call.tool_calls.size(), 1U);
  request.messages.push_back(
      {.role = "assistant", .tool_calls = call.tool_calls});
  request.messages.push_back({.role = "tool",
                              .content = "Booked berth 4.",
                              .tool_call_id = call.tool_calls[0].id,
                              .tool_name = call.tool_calls[0].name});
  request.max_tokens = 4;
  const ChatResult answer = Ask(request).back().result;
  EXPECT_TRUE(answer.tool_calls.empty());
  EXPECT_GT(answer.usage.cached_tokens, 0);
  EXPECT_EQ(service_->session_counts().continued, 1U);
  EXPECT_EQ(service_->session_counts().created, 1U);
}

TEST_F(ChatServiceTest, IdleWorkLearnsTheSchema) {
  Start();
  EXPECT_EQ(Ask(BerthQuestion()).back().result.report["tier"], "prefill");
  // A request waits for idle work no longer than for one piece, so look until
  // it had its turn.
  std::string tier;
  for (int i = 0; i < 50 && tier != "splice"; ++i) {
    std::this_thread::sleep_for(milliseconds(100));
    tier = Ask(BerthQuestion()).back().result.report["tier"];
  }
  EXPECT_EQ(tier, "splice");
}

TEST_F(ChatServiceTest, TheConversationsOfManyShareFewSessions) {
  Start({.sessions = {.max_sessions = 2}});
  for (int i = 0; i < 4; ++i) {
    const auto events = Ask(Question("Question " + std::to_string(i)));
    EXPECT_EQ(events.back().kind, ChatEvent::Kind::kDone);
  }
  EXPECT_EQ(service_->session_counts().held, 2U);
  EXPECT_EQ(service_->session_counts().taken_over, 2U);
}

TEST_F(ChatServiceTest, PinnedToolsAreChosenByTheModel) {
  Start();
  ChatRequest request = BerthQuestion();
  request.tools_mode = ToolsMode::kPin;
  request.tool_choice = ToolChoice::kRequired;
  const ChatResult call = Ask(request).back().result;
  ASSERT_EQ(call.tool_calls.size(), 1U);
  EXPECT_THAT(call.tool_calls[0].name, HasSubstr("book_berth_"));
  EXPECT_EQ(call.report["mode"], "pin");
  EXPECT_EQ(call.report["call"]["valid"], true);

  // The list's cells are there for the next question, in whatever order.
  std::swap(request.tools[0], request.tools[1]);
  request.messages[0].content = "Another question.";
  const ChatResult again = Ask(request).back().result;
  EXPECT_EQ(again.tool_calls.size(), 1U);

  request.tool_choice = ToolChoice::kNamed;
  request.named_tool = "book_berth_1";
  EXPECT_EQ(Ask(request).back().result.tool_calls.at(0).name, "book_berth_1");

  request.tool_choice = ToolChoice::kAuto;
  EXPECT_EQ(Ask(request).back().kind, ChatEvent::Kind::kDone);
}

TEST_F(ChatServiceTest, APinnedListIsHeldThroughAToolsResult) {
  Start();
  ChatRequest request = BerthQuestion();
  request.tools_mode = ToolsMode::kPin;
  request.tool_choice = ToolChoice::kRequired;
  const ChatResult call = Ask(request).back().result;
  ASSERT_EQ(call.tool_calls.size(), 1U);
  request.messages.push_back(
      {.role = "assistant", .tool_calls = call.tool_calls});
  request.messages.push_back({.role = "tool",
                              .content = "Booked berth 4.",
                              .tool_call_id = call.tool_calls[0].id,
                              .tool_name = call.tool_calls[0].name});
  const ChatResult next = Ask(request).back().result;
  ASSERT_EQ(next.tool_calls.size(), 1U);
  EXPECT_EQ(next.report["tier"], "exact-prefix");
  EXPECT_GT(next.usage.cached_tokens, call.usage.prompt_tokens / 2);
}

TEST_F(ChatServiceTest, AHybridListFindsWhatItDoesNotShow) {
  // Nothing but the finder is listed: whoever must call has to search first.
  Start({.hybrid = {.tools = 0, .found = 2}});
  ChatRequest request = BerthQuestion();
  for (int i = 2; i < 6; ++i) request.tools.push_back(SampleTool(i));
  request.tools_mode = ToolsMode::kHybrid;
  request.tool_choice = ToolChoice::kRequired;
  const auto events = Ask(request);
  ASSERT_EQ(events.back().kind, ChatEvent::Kind::kDone)
      << events.back().error.message;
  const ChatResult& result = events.back().result;
  ASSERT_EQ(result.tool_calls.size(), 1U);
  EXPECT_THAT(result.tool_calls[0].name, HasSubstr("book_berth_"));
  EXPECT_EQ(result.report["mode"], "hybrid");
  EXPECT_EQ(result.report["call"]["valid"], true);
  const Json& searches = result.report["searches"];
  ASSERT_GE(searches.size(), 1U);
  ASSERT_LE(searches.size(), static_cast<size_t>(kMaxToolSearches));
  EXPECT_EQ(searches[0]["found"].size(), 2U);
  // The search stays inside: one call, and its tokens are accounted for.
  int begun = 0;
  for (const ChatEvent& event : events) {
    if (event.kind == ChatEvent::Kind::kCallBegin) ++begun;
  }
  EXPECT_EQ(begun, 1);
  EXPECT_GT(result.usage.completion_tokens,
            static_cast<int>(result.tool_calls[0].arguments.size() / 16));
  const Json& report = result.report;
  EXPECT_EQ(report["reused_tokens"].get<int>() +
                report["restored_tokens"].get<int>() +
                report["spliced_tokens"].get<int>() +
                report["recomputed_tokens"].get<int>() +
                report["prefilled_tokens"].get<int>(),
            result.usage.prompt_tokens);
}

TEST_F(ChatServiceTest, AHybridListShowsTheBestTools) {
  Start({.hybrid = {.tools = 1, .found = 1}});
  ChatRequest request = BerthQuestion();
  for (int i = 2; i < 6; ++i) request.tools.push_back(SampleTool(i));
  request.tools_mode = ToolsMode::kHybrid;
  request.tool_choice = ToolChoice::kNamed;
  request.named_tool = "book_berth_4";
  const ChatResult named = Ask(request).back().result;
  ASSERT_EQ(named.tool_calls.size(), 1U);
  EXPECT_EQ(named.tool_calls[0].name, "book_berth_4");
  EXPECT_EQ(named.report["route"]["candidates"].size(), 1U);

  request.tool_choice = ToolChoice::kAuto;
  const ChatResult free = Ask(request).back().result;
  // find_tool and one tool, not all six.
  request.tools_mode = ToolsMode::kPin;
  const ChatResult pinned = Ask(request).back().result;
  EXPECT_LT(free.report["tokens"]["block"], pinned.report["tokens"]["block"]);
  // A list that would leave out one tool shows them all.
  request.tools.resize(2);
  request.tools_mode = ToolsMode::kHybrid;
  EXPECT_FALSE(Ask(request).back().result.report.contains("searches"));
}

TEST_F(ChatServiceTest, SaysThatThePromptIsTooLong) {
  Start();
  const auto events = Ask(Question(std::string(5000, 'x')));
  ASSERT_EQ(events.back().kind, ChatEvent::Kind::kFailed);
  EXPECT_EQ(events.back().error.status, 400);
  EXPECT_EQ(events.back().error.code, "context_length_exceeded");
  // The session is as good as before.
  EXPECT_EQ(Ask(Question("hi")).back().kind, ChatEvent::Kind::kDone);
}

TEST_F(ChatServiceTest, ARouteThatNobodyWaitsForIsNotMade) {
  Start();
  ChatService::Accepted accepted;
  const auto late = service_->Submit(
      BerthQuestion(), &accepted,
      {.deadline = std::chrono::steady_clock::now() - milliseconds(1)});
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->status, 408);
  ChatRequest hybrid = BerthQuestion();
  for (int i = 2; i < 8; ++i) hybrid.tools.push_back(SampleTool(i));
  hybrid.tools_mode = ToolsMode::kHybrid;
  const auto gone = service_->Submit(std::move(hybrid), &accepted,
                                     {.is_client_gone = [] { return true; }});
  ASSERT_TRUE(gone.has_value());
  EXPECT_EQ(gone->status, 503);
  EXPECT_EQ(accepted.ticket, nullptr);
}

TEST_F(ChatServiceTest, CancellingEndsTheAnswer) {
  Start();
  ChatRequest request = Question("Tell me everything.");
  request.max_tokens = 900;
  ChatService::Accepted accepted;
  ASSERT_FALSE(service_->Submit(request, &accepted).has_value());
  ASSERT_TRUE(accepted.stream->Pop(kLongest).has_value());
  accepted.ticket->Cancel(CancelledError("the client has gone"));
  while (true) {
    const auto event = accepted.stream->Pop(kLongest);
    ASSERT_TRUE(event.has_value());
    if (event->kind == ChatEvent::Kind::kText) continue;
    // The model may have come to an end of its own just before.
    if (event->kind == ChatEvent::Kind::kFailed) {
      EXPECT_THAT(event->error.message, HasSubstr("gone"));
    }
    break;
  }
  EXPECT_EQ(Ask(Question("hi")).back().kind, ChatEvent::Kind::kDone);
}

TEST_F(ChatServiceTest, StopStringsEndTheAnswer) {
  Start();
  ChatRequest request = Question("Say something.");
  request.max_tokens = 40;
  const std::string whole = Ask(request).back().result.content;
  ASSERT_GT(whole.size(), 8U);
  // In whole characters: the tiny model writes any bytes.
  request.stop = {whole.substr(4, 3)};
  const ChatResult stopped = Ask(request).back().result;
  EXPECT_EQ(stopped.content, whole.substr(0, whole.find(request.stop[0])));
  EXPECT_EQ(stopped.finish_reason, "stop");
}

TEST_F(ChatServiceTest, LogprobsAreOfTheTextThatGoesOut) {
  Start();
  ChatRequest request = Question("Say something.");
  request.max_tokens = 40;
  EXPECT_TRUE(Ask(request).back().result.logprobs.is_null());
  request.top_logprobs = 2;
  const auto events = Ask(request);
  const ChatResult& whole = events.back().result;
  // The tiny model writes any bytes: what is no character goes out as U+FFFD,
  // so only their number can be compared.
  EXPECT_EQ(whole.logprobs.size(),
            static_cast<size_t>(whole.usage.completion_tokens));
  Json streamed = Json::array();
  for (const ChatEvent& event : events) {
    for (const Json& row : event.logprobs) streamed.push_back(row);
  }
  EXPECT_EQ(streamed, whole.logprobs);
  for (const Json& row : whole.logprobs) {
    // Greedy: the sampled one is the most likely.
    ASSERT_EQ(row["top_logprobs"].size(), 2U);
    EXPECT_EQ(row["top_logprobs"][0]["token"], row["token"]);
    EXPECT_EQ(row["top_logprobs"][0]["logprob"], row["logprob"]);
    EXPECT_LE(row["top_logprobs"][1]["logprob"], row["logprob"]);
    EXPECT_LE(row["logprob"], 0.0);
  }
  request.stop = {whole.content.substr(8, 3)};
  const ChatResult stopped = Ask(request).back().result;
  EXPECT_LT(stopped.logprobs.size(), whole.logprobs.size());
  for (size_t i = 0; i < stopped.logprobs.size(); ++i) {
    EXPECT_EQ(stopped.logprobs[i], whole.logprobs[i]);
  }
}

TEST_F(ChatServiceTest, KeepsToTheResponseFormat) {
  Start();
  ChatRequest request = Question("A point, please.");
  request.format = ResponseFormat::kJsonSchema;
  request.format_schema = {{"type", "object"},
                           {"properties", {{"x", {{"type", "integer"}}}}},
                           {"required", Json::array({"x"})},
                           {"additionalProperties", false}};
  request.max_tokens = 100;
  const ChatResult result = Ask(request).back().result;
  const auto json = ParseJson(result.content, "answer");
  ASSERT_OK(json);
  EXPECT_TRUE((*json)["x"].is_number_integer());
}

TEST_F(ChatServiceTest, StopFailsWhatWaits) {
  Start();
  ChatRequest request = Question("Tell me everything.");
  request.max_tokens = 900;
  ChatService::Accepted first;
  ChatService::Accepted second;
  ASSERT_FALSE(service_->Submit(request, &first).has_value());
  ASSERT_FALSE(service_->Submit(request, &second).has_value());
  service_->Stop();
  std::optional<ChatEvent> last;
  while (auto event = second.stream->Pop(milliseconds(0))) last = event;
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->kind, ChatEvent::Kind::kFailed);
  EXPECT_EQ(last->error.status, 503);
}

TEST_F(ChatServiceTest, SplicedAnswersAreAuditedWhenNobodyWaits) {
  const schema::ToolSchema tool = SampleTool(0);
  ASSERT_OK(engine::CompileTools(tiny_->engine(), {&tool, 1}, {}).status());
  ChatServiceOptions options;
  options.idle_work = false;
  options.audit_every = 1;
  // Twice a noise floor that without a profile is 0: every splice breaks it.
  options.prepare.budget = engine::Budget::kStrict;
  Start(options);
  Ask(BerthQuestion());
  ASSERT_EQ(outcomes_.size(), 1u);
  ASSERT_EQ(outcomes_[0].tier.tier, engine::Tier::kSplice);

  AwaitAudit();
  {
    MutexLock lock(mutex_);
    ASSERT_EQ(audits_.size(), 1u);
    ASSERT_OK(audits_[0].report.status());
    EXPECT_TRUE(audits_[0].report->broke_budget);
    EXPECT_GT(audits_[0].report->positions, 0);
    EXPECT_EQ(audits_[0].tool, schema::ToolId(tool));
  }
  // Another conversation: nothing exact to go on from.
  ChatRequest again = BerthQuestion();
  again.messages[0].content = "For the Ida now: please book_berth_0.";
  Ask(std::move(again));
  ASSERT_EQ(outcomes_.size(), 2u);
  EXPECT_EQ(outcomes_[1].tier.tier, engine::Tier::kPrefill);
  EXPECT_THAT(outcomes_[1].tier.reasons, Contains(HasSubstr("demoted")));
}

// Idle work is cancelled and begun again, or never begun: none of it may keep a
// server from ending.
TEST_F(ChatServiceTest, StopsWithAnAuditWaiting) {
  const schema::ToolSchema tool = SampleTool(0);
  ASSERT_OK(engine::CompileTools(tiny_->engine(), {&tool, 1}, {}).status());
  ChatServiceOptions options;
  options.audit_every = 1;
  Start(options);
  ChatService::Accepted spliced;
  ASSERT_FALSE(service_->Submit(BerthQuestion(), &spliced).has_value());
  // Waits behind the first, so that its audit has no turn.
  ChatRequest request = Question("Tell me everything.");
  request.max_tokens = 900;
  ChatService::Accepted behind;
  ASSERT_FALSE(service_->Submit(request, &behind).has_value());
  EXPECT_EQ(Events(*spliced.stream).back().kind, ChatEvent::Kind::kDone);
  service_->Stop();
  ASSERT_GE(outcomes_.size(), 1u);
  EXPECT_EQ(outcomes_[0].tier.tier, engine::Tier::kSplice);
  {
    MutexLock lock(mutex_);
    EXPECT_TRUE(audits_.empty());
  }
  EXPECT_EQ(Events(*behind.stream).back().kind, ChatEvent::Kind::kFailed);
  // Again, and by the destructor: nothing is left to wait for.
  service_->Stop();
  service_.reset();
}

TEST_F(ChatServiceTest, AStoreThatCannotBeWrittenCostsNoAnswer) {
  Start();
  // No folder any more, and none can be made: even root can't write there.
  std::filesystem::remove_all(tiny_->store_dir());
  std::ofstream(tiny_->store_dir()) << "a file";
  for (int round = 0; round < 2; ++round) {
    const auto events = Ask(BerthQuestion());
    ASSERT_EQ(events.back().kind, ChatEvent::Kind::kDone)
        << events.back().error.message;
    EXPECT_EQ(events.back().result.tool_calls.size(), 1U);
  }
}

// A client waits for the end of its answer, and nothing is sampled behind it.
TEST_F(ChatServiceTest, TheLastTokenOfAnAnswerIsLeftToTheNextTurn) {
  const engine::Engine& engine = tiny_->engine();
  ASSERT_OK_AND_ASSIGN(auto session, engine::Session::Create(&engine));
  ASSERT_OK_AND_ASSIGN(const auto prompt,
                       engine.model().Tokenize("Tell me of the Aurora."));
  ASSERT_OK(session->Append(prompt, llm::Logits::kLast));
  ASSERT_OK_AND_ASSIGN(
      const GeneratedAnswer answer,
      GenerateAnswer(*session, engine.model(), {.max_tokens = 4}));
  ASSERT_TRUE(answer.at_limit);
  EXPECT_EQ(answer.sampled_tokens, 4);
  EXPECT_EQ(session->tokens().size(), prompt.size() + 3);
}

}  // namespace
}  // namespace nexus::serve
