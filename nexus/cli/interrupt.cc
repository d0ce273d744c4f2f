#include "nexus/cli/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace nexus::cli {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int) {
  if (interrupted.exchange(true)) ::_exit(130);
}

}  // namespace

void InstallInterruptHandler() {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  // A closed pipe (`nexus tools | head`) must end quietly, a dead MCP server
  // must not end anything.
  std::signal(SIGPIPE, SIG_IGN);
}

const std::atomic<bool>& Interrupted() { return interrupted; }

}  // namespace nexus::cli
