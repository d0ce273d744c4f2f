#include "nexus/serve/session_store.h"

#include <filesystem>
#include <fstream>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/fault_file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::serve {
namespace {

using engine::testing::TinyEngine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Tokens = std::vector<llm::Token>;

class SessionStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, TinyEngine::Create({.context_tokens = 256}));
  }

  // A cache in which each conversation was held, with as many tokens more.
  void Fill(SessionCache& cache, const std::vector<Tokens>& conversations) {
    for (const Tokens& each : conversations) {
      ASSERT_OK_AND_ASSIGN(HeldSession * held, cache.Acquire(each, each));
      Tokens cells = each;
      cells.resize(20 * each.size());
      std::iota(cells.begin() + static_cast<std::ptrdiff_t>(each.size()),
                cells.end(), 5);
      ASSERT_OK(held->session->Append(cells, llm::Logits::kLast));
    }
  }

  Result<std::unique_ptr<SessionStore>> Open(FileSystem& fs) {
    return SessionStore::Open(fs, dir_.File("sessions"));
  }

  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(dir_.File("sessions"))) {
      if (entry.path().extension() == ".nxb") names.push_back(entry.path());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  ScopedTempDir dir_;
  std::unique_ptr<TinyEngine> tiny_;
};

TEST_F(SessionStoreTest, ARestartedServerHoldsWhatItHeld) {
  std::vector<Tokens> cells;
  {
    SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
    Fill(cache, {{1, 2, 3}, {4, 5}});
    for (const auto& held : cache.held()) {
      cells.emplace_back(held->session->tokens().begin(),
                         held->session->tokens().end());
    }
    ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
    ASSERT_OK_AND_ASSIGN(const SessionStoreReport report, store->Save(cache));
    EXPECT_EQ(report.sessions, 2);
    EXPECT_EQ(report.tokens, 100);
    EXPECT_THAT(report.notes, IsEmpty());
  }
  ASSERT_OK(tiny_->Restart());
  SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
  ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
  const SessionStoreReport report = store->Load(&tiny_->engine(), &cache);
  EXPECT_THAT(report.notes, IsEmpty());
  ASSERT_EQ(report.sessions, 2);
  EXPECT_EQ(cache.counts().held, 2U);
  for (size_t i = 0; i < 2; ++i) {
    const engine::Session& session = *cache.held()[i]->session;
    EXPECT_EQ(session.ExactPrefix(cells[i]), cells[i].size());
  }
  // The conversation goes on where it was.
  const Tokens next = {1, 2, 3, 9};
  ASSERT_OK_AND_ASSIGN(HeldSession * held, cache.Acquire(next, cells[0]));
  EXPECT_EQ(held->session->exact_count(), cells[0].size());
  EXPECT_EQ(cache.counts().continued, 1U);
}

TEST_F(SessionStoreTest, TheNextTokenIsTheSameAsWithoutARestart) {
  const Tokens more = {7, 8};
  std::vector<float> before;
  {
    SessionCache cache(&tiny_->engine(), {.max_sessions = 1});
    Fill(cache, {{1, 2, 3}});
    ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
    ASSERT_OK(store->Save(cache));
    engine::Session& session = *cache.held()[0]->session;
    ASSERT_OK(session.Append(more, llm::Logits::kLast));
    before.assign(session.logits().begin(), session.logits().end());
  }
  ASSERT_OK(tiny_->Restart());
  SessionCache cache(&tiny_->engine(), {.max_sessions = 1});
  ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
  ASSERT_EQ(store->Load(&tiny_->engine(), &cache).sessions, 1);
  engine::Session& session = *cache.held()[0]->session;
  ASSERT_OK(session.Append(more, llm::Logits::kLast));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), session.logits().begin(),
                         session.logits().end()));
}

TEST_F(SessionStoreTest, OldFilesGoAndThoseUsedLastStay) {
  ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
  SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
  Fill(cache, {{1}, {2}, {3}});
  ASSERT_OK(store->Save(cache));
  ASSERT_OK(store->Save(cache));
  EXPECT_EQ(Files().size(), 3U);
  SessionCache small(&tiny_->engine(), {.max_sessions = 2});
  const SessionStoreReport report = store->Load(&tiny_->engine(), &small);
  EXPECT_EQ(report.sessions, 2);
  EXPECT_THAT(report.notes, ElementsAre(HasSubstr("--sessions")));
  EXPECT_EQ(small.held()[0]->conversation, Tokens{2});
  EXPECT_EQ(small.held()[1]->conversation, Tokens{3});
  // Nothing held: nothing kept.
  SessionCache empty(&tiny_->engine(), {.max_sessions = 2});
  ASSERT_OK(store->Save(empty));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(SessionStoreTest, WhatCannotBeReadBeginsAnewAndSaysWhy) {
  ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
  SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
  Fill(cache, {{1}, {2}, {3}});
  ASSERT_OK(store->Save(cache));
  const auto files = Files();
  ASSERT_EQ(files.size(), 3U);
  std::filesystem::remove(files[0]);
  std::filesystem::resize_file(files[1],
                               std::filesystem::file_size(files[1]) - 1);
  SessionCache again(&tiny_->engine(), {.max_sessions = 3});
  const SessionStoreReport report = store->Load(&tiny_->engine(), &again);
  EXPECT_EQ(report.sessions, 1);
  EXPECT_THAT(report.notes,
              ElementsAre(HasSubstr(files[0]), HasSubstr(files[1])));
  EXPECT_EQ(again.held()[0]->conversation, Tokens{3});
}

TEST_F(SessionStoreTest, AWrongIndexIsNamed) {
  ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
  for (
      const char* text :
      {"", "{", "[]", "{}", R"({"version": 9, "sessions": []})",
       R"({"version": 1, "sessions": [{}]})",
       R"({"version": 1, "sessions": [{"file": 1, "conversation": []}]})",
       R"({"version": 1, "sessions": [{"file": "../x", "conversation": []}]})",
       R"({"version": 1, "sessions": [{"file": "x", "conversation": "y"}]})"}) {
    std::ofstream(dir_.File("sessions") + "/sessions.json") << text;
    SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
    const SessionStoreReport report = store->Load(&tiny_->engine(), &cache);
    EXPECT_EQ(report.sessions, 0) << text;
    EXPECT_THAT(report.notes, ElementsAre(HasSubstr("sessions.json"))) << text;
  }
}

TEST_F(SessionStoreTest, AnotherModelsSessionsAreLeftOut) {
  {
    ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
    SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
    Fill(cache, {{1}});
    ASSERT_OK(store->Save(cache));
  }
  TinyEngine::Options options;
  options.context_tokens = 256;
  options.model.arch = llm::testing::TinyArch::kQwen2;
  ASSERT_OK_AND_ASSIGN(auto other, TinyEngine::Create(options));
  ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
  SessionCache cache(&other->engine(), {.max_sessions = 3});
  const SessionStoreReport report = store->Load(&other->engine(), &cache);
  EXPECT_EQ(report.sessions, 0);
  EXPECT_EQ(report.notes.size(), 1U);
}

TEST_F(SessionStoreTest, TwoServersDoNotShareAFolder) {
  ASSERT_OK_AND_ASSIGN(auto store, Open(FileSystem::Default()));
  const auto second = Open(FileSystem::Default());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  store.reset();
  EXPECT_OK(Open(FileSystem::Default()));
}

TEST_F(SessionStoreTest, AFullDiskLeavesWhatWasThere) {
  FaultFileSystem fs;
  ASSERT_OK_AND_ASSIGN(auto store, Open(fs));
  SessionCache cache(&tiny_->engine(), {.max_sessions = 2});
  Fill(cache, {{1}, {2}});
  ASSERT_OK(store->Save(cache));
  const auto before = Files();
  for (const auto operation : {FaultFileSystem::Operation::kCreate,
                               FaultFileSystem::Operation::kAppend,
                               FaultFileSystem::Operation::kRename}) {
    for (int nth = 1; nth <= 3; ++nth) {
      fs.FailNth(operation, nth, FaultFileSystem::Fault::kNoSpace);
      EXPECT_FALSE(store->Save(cache).ok());
      EXPECT_EQ(Files(), before);
      SessionCache again(&tiny_->engine(), {.max_sessions = 2});
      EXPECT_EQ(store->Load(&tiny_->engine(), &again).sessions, 2);
    }
  }
}

}  // namespace
}  // namespace nexus::serve
