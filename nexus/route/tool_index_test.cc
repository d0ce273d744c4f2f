#include "nexus/route/tool_index.h"

#include <atomic>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/route/testing/fake_embedder.h"
#include "nexus/route/testing/sample_tools.h"

namespace nexus::route {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<schema::ToolSchema> SomeTools() {
  return {Tool("read_file", "Reads a file."),
          Tool("send_mail", "Sends a mail."),
          Tool("get_weather", "Weather of a city.")};
}

class ToolIndexTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const ToolIndex>> Build(
      std::vector<schema::ToolSchema> tools) {
    return ToolIndex::Build(std::move(tools), &embedder_, options_);
  }

  ScopedTempDir dir_;
  FakeEmbedder embedder_;
  ToolIndexOptions options_ = {.cache_path = dir_.File("cache.nxslb")};
};

TEST_F(ToolIndexTest, RowsFollowTheTools) {
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  ASSERT_EQ(index->slb()->row_count(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(index->slb()->key(i), Sha256Of(index->search_text(i)));
  }
  EXPECT_EQ(index->embedded_count(), 3);
  EXPECT_THAT(index->warnings(), IsEmpty());
}

TEST_F(ToolIndexTest, ASecondStartEmbedsNothing) {
  ASSERT_OK(Build(SomeTools()));
  embedder_.embedded.clear();
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_THAT(embedder_.embedded, IsEmpty());
  EXPECT_EQ(index->embedded_count(), 0);
  EXPECT_EQ(index->cached_count(), 3);
  EXPECT_EQ(index->slb()->row_count(), 3);
}

TEST_F(ToolIndexTest, OnlyChangedToolsAreEmbedded) {
  ASSERT_OK(Build(SomeTools()));
  embedder_.embedded.clear();
  std::vector<schema::ToolSchema> tools = SomeTools();
  tools[1].description = "Sends a letter.";
  ASSERT_OK_AND_ASSIGN(const auto index, Build(tools));
  EXPECT_THAT(embedder_.embedded, ElementsAre(HasSubstr("letter")));
  // The old text is still known: going back costs nothing.
  ASSERT_OK_AND_ASSIGN(const auto back, Build(SomeTools()));
  EXPECT_EQ(back->embedded_count(), 0);
}

TEST_F(ToolIndexTest, EqualTextsAreEmbeddedOnce) {
  std::vector<schema::ToolSchema> tools(1000, Tool("same", "The same."));
  ASSERT_OK_AND_ASSIGN(const auto index, Build(std::move(tools)));
  EXPECT_THAT(embedder_.embedded, SizeIs(1));
  EXPECT_EQ(index->slb()->row_count(), 1000);
}

TEST_F(ToolIndexTest, ACacheOfAnotherEncoderIsReplaced) {
  FakeEmbedder other("other");
  ASSERT_OK(ToolIndex::Build(SomeTools(), &other, options_));
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_EQ(index->embedded_count(), 3);
  EXPECT_THAT(index->warnings(), ElementsAre(HasSubstr("another encoder")));
  ASSERT_OK_AND_ASSIGN(const auto again, Build(SomeTools()));
  EXPECT_EQ(again->embedded_count(), 0);
}

TEST_F(ToolIndexTest, ADamagedCacheIsReplaced) {
  ASSERT_OK(Build(SomeTools()));
  FileSystem& fs = FileSystem::Default();
  ASSERT_OK_AND_ASSIGN(std::string bytes, fs.ReadFile(options_.cache_path));
  bytes[bytes.size() - 3] ^= 1;
  ASSERT_OK(WriteFileAtomically(fs, options_.cache_path, bytes));
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_EQ(index->embedded_count(), 3);
  EXPECT_THAT(index->warnings(), ElementsAre(HasSubstr(options_.cache_path)));
}

TEST_F(ToolIndexTest, ACacheThatCantBeWrittenIsAWarning) {
  options_.cache_path = dir_.path() + "/no/such/folder/cache.nxslb";
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_EQ(index->slb()->row_count(), 3);
  EXPECT_THAT(index->warnings(), SizeIs(1));
}

TEST_F(ToolIndexTest, TheCacheKeepsToItsLimit) {
  options_.cache_row_limit = 2;
  ASSERT_OK(Build(SomeTools()));
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_EQ(index->cached_count(), 2);
  EXPECT_EQ(index->embedded_count(), 1);
}

TEST_F(ToolIndexTest, ANanCostsOneToolItsVectorAndIsntCached) {
  embedder_.poison = [](const std::string& text) {
    return text.find("mail") != std::string::npos;
  };
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_TRUE(index->slb()->usable(0));
  EXPECT_FALSE(index->slb()->usable(1));
  EXPECT_THAT(index->warnings(), ElementsAre(HasSubstr("send_mail")));
  embedder_.poison = nullptr;
  ASSERT_OK_AND_ASSIGN(const auto again, Build(SomeTools()));
  EXPECT_EQ(again->embedded_count(), 1);
  EXPECT_TRUE(again->slb()->usable(1));
}

TEST_F(ToolIndexTest, ARefusedTextCostsOneToolItsVectorAndNoneOfItsBatch) {
  embedder_.refuse = [](const std::string& text) {
    return text.find("mail") != std::string::npos;
  };
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_TRUE(index->slb()->usable(0));
  EXPECT_FALSE(index->slb()->usable(1));
  EXPECT_TRUE(index->slb()->usable(2));
  EXPECT_THAT(index->warnings(), ElementsAre(AllOf(HasSubstr("send_mail"),
                                                   HasSubstr("not a number"))));
  // A tool that comes later, alone in its batch, is no different.
  auto more = SomeTools();
  more.push_back(Tool("read_mail", "Reads a mail."));
  ASSERT_OK_AND_ASSIGN(const auto grown, Build(more));
  EXPECT_FALSE(grown->slb()->usable(3));
  embedder_.refuse = nullptr;
  ASSERT_OK_AND_ASSIGN(const auto again, Build(more));
  EXPECT_EQ(again->embedded_count(), 2);
  EXPECT_TRUE(again->slb()->usable(1));
}

TEST_F(ToolIndexTest, AnErrorInTheMiddleOfABatchNamesItsTool) {
  int calls = 0;
  embedder_.refuse = [&](const std::string& text) {
    // Refused together; alone the first is fine, then the encoder is gone.
    if (text.find("mail") != std::string::npos && ++calls > 1) {
      embedder_.error = IoError("gone");
    }
    return text.find("mail") != std::string::npos;
  };
  const Status status =
      Build({Tool("a", "One."), Tool("b", "A mail."), Tool("c", "Three.")})
          .status();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("'c'"));
}

TEST_F(ToolIndexTest, AnEncoderThatRefusesEveryTextIsAnError) {
  embedder_.refuse = [](const std::string&) { return true; };
  const Status status = Build(SomeTools()).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("read_file"));
}

TEST_F(ToolIndexTest, AnEncodersErrorNamesTheTool) {
  embedder_.error = InternalError("no memory");
  const Status status = Build(SomeTools()).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("read_file"));
}

TEST_F(ToolIndexTest, WhatWasEmbeddedBeforeAnErrorIsKept) {
  options_.batch_texts = 2;
  options_.progress = [&](int, int) { embedder_.error = IoError("gone"); };
  EXPECT_FALSE(Build(SomeTools()).ok());
  embedder_.error = Status::Ok();
  options_.progress = nullptr;
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_EQ(index->cached_count(), 2);
  EXPECT_EQ(index->embedded_count(), 1);
}

TEST_F(ToolIndexTest, WhatWasEmbeddedBeforeAnInterruptIsKept) {
  options_.batch_texts = 2;
  std::atomic<bool> cancel = false;
  options_.cancel = &cancel;
  options_.progress = [&](int done, int) { cancel = done >= 2; };
  const Status status = Build(SomeTools()).status();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_THAT(status.message(), HasSubstr("2 of"));
  options_.progress = nullptr;
  cancel = false;
  ASSERT_OK_AND_ASSIGN(const auto index, Build(SomeTools()));
  EXPECT_EQ(index->cached_count(), 2);
}

TEST_F(ToolIndexTest, ReportsProgress) {
  options_.batch_texts = 2;
  std::vector<int> done;
  options_.progress = [&](int count, int total) {
    EXPECT_EQ(total, 3);
    done.push_back(count);
  };
  ASSERT_OK(Build(SomeTools()));
  EXPECT_THAT(done, ElementsAre(2, 3));
}

TEST_F(ToolIndexTest, TakesNoToolsAndNoEncoder) {
  ASSERT_OK_AND_ASSIGN(const auto empty, Build({}));
  EXPECT_EQ(empty->slb()->row_count(), 0);
  ASSERT_OK_AND_ASSIGN(const auto words,
                       ToolIndex::Build(SomeTools(), nullptr));
  EXPECT_EQ(words->slb(), nullptr);
  EXPECT_EQ(words->bm25().document_count(), 3);
}

TEST_F(ToolIndexTest, WordsFindAToolByItsServer) {
  ASSERT_OK_AND_ASSIGN(const auto index,
                       Build({Tool("search", "Find songs", "spotify"),
                              Tool("search", "Find songs", "deezer")}));
  const std::vector<float> scores = index->bm25().Score("songs on Deezer");
  EXPECT_GT(scores[1], scores[0]);
  // The encoder wasn't trained on servers.
  EXPECT_THAT(index->search_text(1), ::testing::Not(HasSubstr("deezer")));
}

TEST_F(ToolIndexTest, TwinsAreOfOneClass) {
  ASSERT_OK_AND_ASSIGN(
      const auto index,
      Build({Tool("search", "Finds.", "a"), Tool("search", "Finds.", "b"),
             Tool("search", "Finds mail.", "c")}));
  EXPECT_EQ(index->twin_class()[0], index->twin_class()[1]);
  EXPECT_NE(index->twin_class()[0], index->twin_class()[2]);
}

}  // namespace
}  // namespace nexus::route
