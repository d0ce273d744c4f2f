# Warnings for Nexus's own targets; third-party headers come in as SYSTEM.
# Errors only where asked (CI), so that a newer compiler never breaks a user.
option(NEXUS_WARNINGS_AS_ERRORS "Treat warnings in Nexus code as errors" OFF)

add_library(nexus_warnings INTERFACE)
target_compile_options(nexus_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor
  $<$<BOOL:${NEXUS_WARNINGS_AS_ERRORS}>:-Werror>
  # Designated initialisers leave the rest at their defaults on purpose.
  -Wno-missing-field-initializers
  # GCC 12 reports false positives inside libstdc++ at -O3 for these two.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wthread-safety>)
