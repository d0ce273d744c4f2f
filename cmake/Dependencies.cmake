# System packages; docs/decisions/ has the reason for each.
find_package(PkgConfig REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_path(NEXUS_TOMLPP_INCLUDE toml++/toml.h REQUIRED)
find_path(NEXUS_VALIJSON_INCLUDE valijson/validator.hpp REQUIRED)

add_library(nexus_tomlpp INTERFACE)
target_include_directories(nexus_tomlpp SYSTEM INTERFACE
                           "${NEXUS_TOMLPP_INCLUDE}")
add_library(nexus_valijson INTERFACE)
target_include_directories(nexus_valijson SYSTEM INTERFACE
                           "${NEXUS_VALIJSON_INCLUDE}")

if(NEXUS_DEVELOPER_MODE)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  # A main of our own, so that every test binary checks the same invariants.
  add_library(nexus_test_main STATIC "${PROJECT_SOURCE_DIR}/tests/test_main.cc")
  target_link_libraries(nexus_test_main PUBLIC GTest::gtest GTest::gmock)
endif()
