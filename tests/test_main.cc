// Shared main of all test binaries: gmock's flags work everywhere, and a write
// to a closed pipe must fail with EPIPE instead of killing the test.
#include <csignal>

#include "gmock/gmock.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
