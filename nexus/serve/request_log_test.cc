#include "nexus/serve/request_log.h"

#include <vector>

#include "gmock/gmock.h"

namespace nexus::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

net::AnsweredRequest Answered(const std::string& id) {
  return {.id = id,
          .method = "POST",
          .path = "/v1/chat/completions",
          .peer = "127.0.0.1",
          .status = 200,
          .duration_ms = 531.26};
}

ChatOutcome Outcome(const std::string& id) {
  ChatOutcome outcome;
  outcome.request_id = id;
  outcome.is_call = true;
  outcome.tier.tier = engine::Tier::kSplice;
  outcome.usage = {
      .prompt_tokens = 412, .completion_tokens = 23, .cached_tokens = 300};
  outcome.ttft_ms = 88.04;
  return outcome;
}

struct Logged {
  std::vector<RequestRecord> records;
  RequestLog log{[this](const RequestRecord& r) { records.push_back(r); }};
};

TEST(RequestLogTest, AnAnswerCarriesWhatItsOwnChatSaid) {
  Logged logged;
  logged.log.NoteChat(Outcome("a"));
  logged.log.NoteAnswer(Answered("b"));
  logged.log.NoteAnswer(Answered("a"));
  ASSERT_EQ(logged.records.size(), 2U);
  EXPECT_FALSE(logged.records[0].chat.has_value());
  ASSERT_TRUE(logged.records[1].chat.has_value());
  EXPECT_EQ(logged.records[1].chat->usage.prompt_tokens, 412);
  // Once: an id isn't used again.
  logged.log.NoteAnswer(Answered("a"));
  EXPECT_FALSE(logged.records[2].chat.has_value());
}

TEST(RequestLogTest, JsonHasTheDocumentedFields) {
  Logged logged;
  logged.log.NoteChat(Outcome("a"));
  logged.log.NoteAnswer(Answered("a"));
  EXPECT_EQ(DumpJson(ToJson(logged.records[0])),
            R"({"request_id":"a","peer":"127.0.0.1","method":"POST",)"
            R"("path":"/v1/chat/completions","status":200,"duration_ms":531.3,)"
            R"("tier":"splice","call":true,"prompt_tokens":412,)"
            R"("cached_tokens":300,"completion_tokens":23,"queue_ms":0.0,)"
            R"("ttft_ms":88.0})");
  EXPECT_THAT(ToText(logged.records[0]),
              HasSubstr("200 in 531 ms, splice, 412 tokens (300 cached) and "
                        "23, the first after 88 ms, a"));
}

TEST(RequestLogTest, AnAnswerWithoutAChatSaysNothingOfTokens) {
  Logged logged;
  logged.log.NoteAnswer(Answered("a"));
  EXPECT_THAT(DumpJson(ToJson(logged.records[0])), Not(HasSubstr("tokens")));
  EXPECT_THAT(ToText(logged.records[0]), Not(HasSubstr("tokens")));
}

TEST(RequestLogTest, APathFromAnybodyIsCut) {
  Logged logged;
  net::AnsweredRequest request = Answered("a");
  request.path = "/" + std::string(5000, 'x');
  logged.log.NoteAnswer(request);
  EXPECT_LT(DumpJson(ToJson(logged.records[0])).size(), 500U);
  EXPECT_LT(ToText(logged.records[0]).size(), 500U);
}

TEST(RequestLogTest, OutcomesWhoseClientsHadGoneDoNotPileUp) {
  Logged logged;
  for (int i = 0; i < 25000; ++i) {
    logged.log.NoteChat(Outcome(std::to_string(i)));
  }
  // The oldest are forgotten, the newest is there.
  logged.log.NoteAnswer(Answered("0"));
  logged.log.NoteAnswer(Answered("24999"));
  EXPECT_FALSE(logged.records[0].chat.has_value());
  EXPECT_TRUE(logged.records[1].chat.has_value());
}

}  // namespace
}  // namespace nexus::serve
