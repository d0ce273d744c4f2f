# Imports the pinned llama.cpp that scripts/fetch_engine built.
#
# The engine is built once, outside this tree, in a directory keyed by version,
# flags and CPU: a `git clean` here must not cost another quarter of an hour.
# NEXUS_ENGINE_DIR holds src/ (the source tree) and build/ (static libraries).
set(NEXUS_ENGINE_DIR "" CACHE PATH
    "Engine directory printed by scripts/fetch_engine (holds src/ and build/)")
if(NOT EXISTS "${NEXUS_ENGINE_DIR}/build/src/libllama.a")
  message(FATAL_ERROR
    "NEXUS_ENGINE_DIR='${NEXUS_ENGINE_DIR}' holds no built engine.\n"
    "Run scripts/build, which fetches and builds it, or pass "
    "-DNEXUS_ENGINE_DIR=\"$(scripts/fetch_engine)\".")
endif()

set(_src "${NEXUS_ENGINE_DIR}/src")
set(_build "${NEXUS_ENGINE_DIR}/build")
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(OpenMP COMPONENTS C CXX)

# JSON and HTTP come from the engine's tree, so that one copy is linked.
add_library(nexus_json INTERFACE)
target_include_directories(nexus_json SYSTEM INTERFACE "${_src}/vendor")

add_library(nexus_httplib INTERFACE)
target_include_directories(nexus_httplib SYSTEM INTERFACE
                           "${_src}/vendor/cpp-httplib")
target_compile_definitions(nexus_httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT)
target_link_libraries(nexus_httplib INTERFACE
  "${_build}/vendor/cpp-httplib/libcpp-httplib.a"
  OpenSSL::SSL OpenSSL::Crypto Threads::Threads)

# Link order matters for static archives: users before what they use.
add_library(nexus_llama INTERFACE)
target_include_directories(nexus_llama SYSTEM INTERFACE
  "${_src}/include" "${_src}/ggml/include" "${_src}/common" "${_src}/vendor")
target_link_libraries(nexus_llama INTERFACE
  "${_build}/common/libllama-common.a"
  "${_build}/common/libllama-common-base.a"
  "${_build}/src/libllama.a"
  "${_build}/ggml/src/libggml.a")
foreach(_backend rpc cpu)
  file(GLOB_RECURSE _archive "${_build}/ggml/src/libggml-${_backend}.a"
       "${_build}/ggml/src/ggml-${_backend}/libggml-${_backend}.a")
  if(_archive)
    target_link_libraries(nexus_llama INTERFACE ${_archive})
  endif()
endforeach()
target_link_libraries(nexus_llama INTERFACE
  "${_build}/ggml/src/libggml-base.a"
  nexus_httplib Threads::Threads ${CMAKE_DL_LIBS} m)
if(OpenMP_CXX_FOUND)
  target_link_libraries(nexus_llama INTERFACE OpenMP::OpenMP_CXX)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND UNIX AND NOT APPLE)
  # clang without its own OpenMP (libomp-dev), and the engine was built by gcc.
  target_link_libraries(nexus_llama INTERFACE gomp)
endif()
if(APPLE)
  target_link_libraries(nexus_llama INTERFACE
    "-framework Accelerate" "-framework Foundation" "-framework Metal"
    "-framework MetalKit")
endif()
