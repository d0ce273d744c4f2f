# One static library a folder. A folder links only what it names in DEPS, so an
# include from a layer above fails to build.
#
#   nexus_library(kv SOURCES block_reader.cc ... DEPS nexus_base nexus_llm)
#   nexus_test(kv block_reader_test LABELS unit [SOURCES extra.cc] [DEPS ...])
#   nexus_bench(simd int8_scan_bench)
#   nexus_python_test(serving_test LABEL unit TIMEOUT 120)
function(nexus_library part)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(nexus_${part} STATIC ${ARG_SOURCES})
  target_include_directories(nexus_${part} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_compile_features(nexus_${part} PUBLIC cxx_std_20)
  target_link_libraries(nexus_${part}
    PUBLIC ${ARG_DEPS} nexus_sanitize
    PRIVATE ${ARG_PRIVATE_DEPS} nexus_warnings)
endfunction()

# OUTPUT, in the build folder: text files as constants (EmbedText.cmake). ITEMS
# are kName=file.
function(nexus_embed_text output)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "ITEMS" ${ARGN})
  set(files ${ARG_ITEMS})
  list(TRANSFORM files REPLACE "^[^=]*=" "")
  list(JOIN ARG_ITEMS "|" items)
  add_custom_command(
    OUTPUT ${output}
    COMMAND "${CMAKE_COMMAND}" -DOUTPUT=${output} -DHEADER=${ARG_HEADER}
      -DNAMESPACE=${ARG_NAMESPACE} "-DITEMS=${items}"
      -P "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake"
    DEPENDS ${files} "${PROJECT_SOURCE_DIR}/cmake/EmbedText.cmake"
    VERBATIM)
endfunction()

# Labels: unit (no weights, seconds), model (tiny or small real model), e2e, slow.
function(nexus_test part name)
  if(NOT NEXUS_DEVELOPER_MODE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${name}.cc ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE nexus_${part} ${ARG_DEPS}
    nexus_warnings nexus_sanitize GTest::gtest GTest::gmock nexus_test_main)
  # One ctest entry a binary: starting a process per test costs more than the
  # tests of this project do.
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
    LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
  # What scripts/test --tsan builds.
  if("threads" IN_LIST ARG_LABELS)
    if(NOT TARGET nexus_threads_tests)
      add_custom_target(nexus_threads_tests)
    endif()
    add_dependencies(nexus_threads_tests ${name})
  endif()
endfunction()

# NAME.py of the folder, by the developer's Python. ENVIRONMENT as ctest has it.
function(nexus_python_test name)
  if(NOT NEXUS_DEVELOPER_MODE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "ENVIRONMENT" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME ${name}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py)
  set_tests_properties(${name} PROPERTIES
    LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENVIRONMENT}")
  # The whole program on real weights: each run wants all cores.
  if(ARG_LABEL STREQUAL "e2e")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  endif()
endfunction()

function(nexus_bench part name)
  if(NOT NEXUS_DEVELOPER_MODE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${name}.cc ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE nexus_${part} ${ARG_DEPS}
    nexus_warnings nexus_sanitize benchmark::benchmark)
endfunction()
