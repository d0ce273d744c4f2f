# A fuzz target: PART/NAME.cc has LLVMFuzzerTestOneInput and ends the process when
# what it is held to doesn't hold.
#
#   nexus_fuzz(net sse_fuzz [SEEDS file...])
#
# Its seeds are tests/fuzz/NAME/* and SEEDS. With the preset `fuzz` (clang) it is
# driven by libFuzzer: scripts/fuzz. In all other builds it is a unit test that
# runs the seeds and a fixed number of changes of each.
function(nexus_fuzz part name)
  if(NOT NEXUS_DEVELOPER_MODE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SEEDS" ${ARGN})
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE nexus_${part} nexus_warnings nexus_sanitize)
  if(NEXUS_SANITIZE STREQUAL "fuzzer")
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    return()
  endif()
  target_sources(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cc")
  file(GLOB seeds CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/${name}/*")
  add_test(NAME ${name} COMMAND ${name} ${seeds} ${ARG_SEEDS})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()
