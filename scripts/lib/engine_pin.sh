# The one version of llama.cpp that Nexus builds against. Source it.
#
# The tree hash is git's own name for the content, so it holds wherever the tree
# came from. To move the pin: change all of these together, and build and test.
ENGINE_VERSION=v0.4.0
ENGINE_TREE=0424752fbbc3bb01469ec830a30f2bc035497cd4
ENGINE_REPOSITORY=https://github.com/ggml-org/llama.cpp
ENGINE_BUNDLE_PACKAGE=node-llama-cpp@3.21.1
ENGINE_BUNDLE_PATH=package/llama/gitRelease.bundle
ENGINE_BUNDLE_SHA256=9336d8aab8f8e6a8919380f3641fe92e57b02fb55df1b6bd083b82491a6293b8

# One build serves all presets; position-independent, so that shared libraries may
# link it too. The UI, tests and examples of llama.cpp aren't ours to build.
ENGINE_FLAGS="-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
-DCMAKE_POSITION_INDEPENDENT_CODE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF \
-DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DGGML_RPC=ON -DGGML_NATIVE=ON"
