#include "nexus/serve/stream_pipe.h"

#include <thread>

#include "gtest/gtest.h"

namespace nexus::serve {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60000};
constexpr milliseconds kShort{20};

TEST(StreamPipeTest, KeepsTheOrderAndThenSaysHowItEnded) {
  StreamPipe pipe;
  EXPECT_TRUE(pipe.Push("a"));
  EXPECT_TRUE(pipe.Push("b"));
  ApiError error;
  error.message = "why";
  pipe.End(error);
  EXPECT_FALSE(pipe.has_ended());
  EXPECT_EQ(pipe.Pop(kLong), "a");
  EXPECT_EQ(pipe.Pop(kLong), "b");
  EXPECT_EQ(pipe.Pop(kLong), std::nullopt);
  EXPECT_TRUE(pipe.has_ended());
  EXPECT_EQ(pipe.error()->message, "why");
}

TEST(StreamPipeTest, AnEmptyPipeTellsWaitingFromEnding) {
  StreamPipe pipe;
  EXPECT_EQ(pipe.Pop(kShort), std::nullopt);
  EXPECT_FALSE(pipe.has_ended());
  pipe.End(std::nullopt);
  EXPECT_TRUE(pipe.has_ended());
  EXPECT_FALSE(pipe.error().has_value());
}

TEST(StreamPipeTest, AFullPipeHoldsTheWriterUntilThereIsRoom) {
  StreamPipe pipe(2);
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(pipe.Push(std::to_string(i)));
    pipe.End(std::nullopt);
  });
  for (int i = 0; i < 100; ++i) EXPECT_EQ(pipe.Pop(kLong), std::to_string(i));
  writer.join();
  EXPECT_TRUE(pipe.has_ended());
}

TEST(StreamPipeTest, ClosingLetsAWriterGoThatWaitsForRoom) {
  StreamPipe pipe(1);
  ASSERT_TRUE(pipe.Push("a"));
  bool went_out = true;
  std::thread writer([&] { went_out = pipe.Push("b"); });
  std::this_thread::sleep_for(kShort);
  pipe.Close();
  writer.join();
  EXPECT_FALSE(went_out);
}

}  // namespace
}  // namespace nexus::serve
