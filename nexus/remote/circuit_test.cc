#include "nexus/remote/circuit.h"

#include "gtest/gtest.h"

namespace nexus::remote {
namespace {

using std::chrono::milliseconds;

constexpr CircuitOptions kOptions = {.failures_to_open = 2,
                                     .open_for = milliseconds(100),
                                     .longest_open = milliseconds(350)};

Circuit Opened() {
  Circuit circuit(kOptions);
  circuit.OnFailure(milliseconds(0));
  circuit.OnFailure(milliseconds(0));
  return circuit;
}

TEST(CircuitTest, OpensAfterFailuresInARow) {
  Circuit circuit(kOptions);
  circuit.OnFailure(milliseconds(0));
  EXPECT_TRUE(circuit.MayTry(milliseconds(0)));
  circuit.OnSuccess();
  circuit.OnFailure(milliseconds(1));
  EXPECT_TRUE(circuit.MayTry(milliseconds(1)));
  circuit.OnFailure(milliseconds(2));
  EXPECT_FALSE(circuit.MayTry(milliseconds(2)));
  EXPECT_EQ(circuit.state(milliseconds(2)), CircuitState::kOpen);
}

TEST(CircuitTest, LetsOneTrialThroughWhenTheTimeIsOver) {
  Circuit circuit = Opened();
  EXPECT_FALSE(circuit.MayTry(milliseconds(99)));
  EXPECT_EQ(circuit.state(milliseconds(100)), CircuitState::kHalfOpen);
  ASSERT_TRUE(circuit.MayTry(milliseconds(100)));
  circuit.OnTry(milliseconds(100));
  EXPECT_FALSE(circuit.MayTry(milliseconds(100)));
  circuit.OnAbandoned();
  EXPECT_TRUE(circuit.MayTry(milliseconds(100)));
}

TEST(CircuitTest, ClosesAfterAGoodTrial) {
  Circuit circuit = Opened();
  circuit.OnTry(milliseconds(100));
  circuit.OnSuccess();
  EXPECT_EQ(circuit.state(milliseconds(100)), CircuitState::kClosed);
  // One failure alone doesn't open it again.
  circuit.OnFailure(milliseconds(101));
  EXPECT_TRUE(circuit.MayTry(milliseconds(101)));
}

TEST(CircuitTest, FailedTrialsDoubleTheTimeUpToALimit) {
  Circuit circuit = Opened();  // until 100
  circuit.OnTry(milliseconds(100));
  circuit.OnFailure(milliseconds(100));  // until 300
  EXPECT_FALSE(circuit.MayTry(milliseconds(299)));
  circuit.OnTry(milliseconds(300));
  circuit.OnFailure(milliseconds(300));  // 400 would be over the longest
  EXPECT_FALSE(circuit.MayTry(milliseconds(649)));
  EXPECT_TRUE(circuit.MayTry(milliseconds(650)));
}

TEST(CircuitTest, StragglersDontProlongIt) {
  Circuit circuit = Opened();
  for (int i = 0; i < 10; ++i) circuit.OnFailure(milliseconds(50));
  EXPECT_TRUE(circuit.MayTry(milliseconds(100)));
}

TEST(CircuitTest, AProbeEndsTheWait) {
  Circuit circuit = Opened();
  circuit.AllowTrial(milliseconds(10));
  EXPECT_TRUE(circuit.MayTry(milliseconds(10)));
  EXPECT_EQ(circuit.state(milliseconds(10)), CircuitState::kHalfOpen);
}

TEST(CircuitTest, CoolsDownWithoutOpening) {
  Circuit circuit(kOptions);
  circuit.CoolDown(milliseconds(70));
  circuit.CoolDown(milliseconds(40));
  EXPECT_EQ(circuit.state(milliseconds(0)), CircuitState::kClosed);
  EXPECT_EQ(circuit.CoolingFor(milliseconds(20)), milliseconds(50));
  EXPECT_EQ(circuit.CoolingFor(milliseconds(80)), milliseconds(0));
}

}  // namespace
}  // namespace nexus::remote
