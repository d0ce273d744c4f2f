// NEXUS_CHECK: for a programmer's error only, never for input. Stays on in
// release builds; NEXUS_DCHECK is for hot loops and vanishes there.
#ifndef NEXUS_BASE_CHECK_H_
#define NEXUS_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace nexus::internal {
[[noreturn]] inline void CheckFailed(const char* file, int line,
                                     const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}
}  // namespace nexus::internal

#define NEXUS_CHECK(condition)  \
  (static_cast<bool>(condition) \
       ? static_cast<void>(0)   \
       : ::nexus::internal::CheckFailed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define NEXUS_DCHECK(condition) static_cast<void>(sizeof(condition))
#else
#define NEXUS_DCHECK(condition) NEXUS_CHECK(condition)
#endif

#endif  // NEXUS_BASE_CHECK_H_
