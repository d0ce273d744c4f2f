// Devices of llama.cpp's RPC servers (`ggml-rpc-server`), which hold a part of
// a model that is too large for one machine. Internal to nexus/llm.
//
// The engine's own client ends the process when a server can't be reached or
// talks another protocol. So each is asked first, in its own words, and only
// one that answers rightly is handed over. A server that goes away later still
// ends the process.
#ifndef NEXUS_LLM_RPC_DEVICES_H_
#define NEXUS_LLM_RPC_DEVICES_H_

#include <chrono>
#include <string>
#include <vector>

#include "nexus/base/result.h"

struct ggml_backend_device;

namespace nexus::llm {

// Greets the server at "host:port". kInvalidArgument for another form,
// kUnavailable when nothing answers in time, kIncompatible for another protocol
// or version.
Status ProbeRpcServer(const std::string& endpoint,
                      std::chrono::milliseconds timeout);

// The devices of all these servers, in order, kept by the engine until the
// process ends.
Result<std::vector<ggml_backend_device*>> RpcDevices(
    const std::vector<std::string>& endpoints);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_RPC_DEVICES_H_
