#include "nexus/remote/replica_set.h"

#include "gtest/gtest.h"

#include "nexus/remote/prefix_key.h"

namespace nexus::remote {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Ending = ReplicaSet::Ending;

class ReplicaSetTest : public testing::Test {
 protected:
  size_t Take(uint64_t key, std::vector<size_t> tried = {}) {
    const auto choice = set_.Take(key, tried);
    EXPECT_TRUE(choice.replica.has_value());
    return choice.replica.value_or(0);
  }
  size_t TakeAndGiveBack(uint64_t key, Ending ending) {
    const size_t replica = Take(key);
    set_.GiveBack(replica, ending);
    return replica;
  }

  FakeClock clock_;
  ReplicaSet set_{{"http://a", "http://b", "http://c"},
                  {.circuit = {.failures_to_open = 2,
                               .open_for = milliseconds(100),
                               .longest_open = milliseconds(1000)},
                   .load_factor = 1.25,
                   .clock = &clock_}};
};

TEST_F(ReplicaSetTest, SendsAKeyToTheSameReplica) {
  for (uint64_t key = 0; key < 50; ++key) {
    const size_t first = TakeAndGiveBack(key, Ending::kGood);
    EXPECT_EQ(first, RankReplicas(key, set_.names()).front());
    EXPECT_EQ(TakeAndGiveBack(key, Ending::kGood), first);
  }
}

TEST_F(ReplicaSetTest, SpillsOverUnderLoad) {
  std::vector<int> taken(3);
  for (int i = 0; i < 12; ++i) ++taken[Take(7)];
  // Of twelve at work for one key none has more than 1.25 of its share.
  const auto order = RankReplicas(7, set_.names());
  EXPECT_EQ(taken[order[0]], 5);
  EXPECT_EQ(taken[order[1]], 5);
  EXPECT_EQ(taken[order[2]], 2);
}

TEST_F(ReplicaSetTest, FailsOverInTheKeysOrder) {
  const auto order = RankReplicas(7, set_.names());
  EXPECT_EQ(Take(7, {order[0]}), order[1]);
  EXPECT_EQ(Take(7, {order[0], order[1]}), order[2]);
  const auto none = set_.Take(7, order);
  EXPECT_FALSE(none.replica.has_value());
  EXPECT_EQ(none.wait, nanoseconds(0));
}

TEST_F(ReplicaSetTest, PassesOverAReplicaThatFailedAndComesBack) {
  const auto order = RankReplicas(7, set_.names());
  TakeAndGiveBack(7, Ending::kBad);
  TakeAndGiveBack(7, Ending::kBad);
  EXPECT_EQ(TakeAndGiveBack(7, Ending::kGood), order[1]);
  clock_.Advance(milliseconds(100));
  // One trial, and the others go on elsewhere meanwhile.
  EXPECT_EQ(Take(7), order[0]);
  EXPECT_EQ(Take(7), order[1]);
  set_.GiveBack(order[0], Ending::kGood);
  EXPECT_EQ(Take(7), order[0]);
}

TEST_F(ReplicaSetTest, PassesOverWhatAProbeFoundUnwell) {
  const auto order = RankReplicas(7, set_.names());
  set_.ReportProbe(order[0], false);
  EXPECT_EQ(set_.available(), 2U);
  EXPECT_EQ(TakeAndGiveBack(7, Ending::kGood), order[1]);
  set_.ReportProbe(order[0], true);
  EXPECT_EQ(TakeAndGiveBack(7, Ending::kGood), order[0]);
}

TEST_F(ReplicaSetTest, AGoodProbeEndsTheWaitOfAnOpenCircuit) {
  const auto order = RankReplicas(7, set_.names());
  TakeAndGiveBack(7, Ending::kBad);
  TakeAndGiveBack(7, Ending::kBad);
  EXPECT_EQ(set_.available(), 2U);
  set_.ReportProbe(order[0], true);
  EXPECT_EQ(TakeAndGiveBack(7, Ending::kGood), order[0]);
}

TEST_F(ReplicaSetTest, AsksTheBestOneWhenNoneIsWell) {
  for (size_t i = 0; i < set_.size(); ++i) set_.ReportProbe(i, false);
  EXPECT_EQ(set_.available(), 0U);
  EXPECT_EQ(Take(7), RankReplicas(7, set_.names()).front());
}

TEST_F(ReplicaSetTest, LeavesAThrottledReplicaAlone) {
  const auto order = RankReplicas(7, set_.names());
  set_.GiveBack(Take(7), Ending::kThrottled, milliseconds(50));
  EXPECT_EQ(TakeAndGiveBack(7, Ending::kGood), order[1]);
  // Even as the only one left, until the time is over.
  const std::vector<size_t> others = {order[1], order[2]};
  const auto none = set_.Take(7, others);
  EXPECT_FALSE(none.replica.has_value());
  EXPECT_EQ(none.wait, milliseconds(50));
  clock_.Advance(milliseconds(50));
  EXPECT_EQ(Take(7, others), order[0]);
}

TEST_F(ReplicaSetTest, CountsWhatHappened) {
  const auto order = RankReplicas(7, set_.names());
  TakeAndGiveBack(7, Ending::kGood);
  TakeAndGiveBack(7, Ending::kBad);
  set_.GiveBack(Take(7), Ending::kThrottled);
  Take(7, {order[0]});
  const auto counts = set_.counts();
  EXPECT_EQ(counts[order[0]].requests, 3U);
  EXPECT_EQ(counts[order[0]].first_choice, 3U);
  EXPECT_EQ(counts[order[0]].failures, 1U);
  EXPECT_EQ(counts[order[0]].throttled, 1U);
  EXPECT_EQ(counts[order[0]].in_flight, 0U);
  EXPECT_EQ(counts[order[1]].in_flight, 1U);
  EXPECT_EQ(counts[order[1]].first_choice, 0U);
}

}  // namespace
}  // namespace nexus::remote
