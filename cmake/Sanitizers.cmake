# NEXUS_SANITIZE is one of "", "address" (with undefined), "thread", "fuzzer"
# (libFuzzer with address and undefined; clang only, see Fuzz.cmake).
set(NEXUS_SANITIZE "" CACHE STRING
    "Sanitizer for Nexus code: address, thread or fuzzer")

add_library(nexus_sanitize INTERFACE)
if(NEXUS_SANITIZE STREQUAL "address")
  set(nexus_sanitize_flags -fsanitize=address,undefined
      -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(NEXUS_SANITIZE STREQUAL "thread")
  set(nexus_sanitize_flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(NEXUS_SANITIZE STREQUAL "fuzzer")
  set(nexus_sanitize_flags -fsanitize=fuzzer-no-link,address,undefined
      -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(NOT NEXUS_SANITIZE STREQUAL "")
  message(FATAL_ERROR
    "NEXUS_SANITIZE must be empty, 'address', 'thread' or 'fuzzer'")
endif()
target_compile_options(nexus_sanitize INTERFACE ${nexus_sanitize_flags})
target_link_options(nexus_sanitize INTERFACE ${nexus_sanitize_flags})
