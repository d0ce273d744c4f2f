// Ids of answers and calls: unlike in one process, and between processes.
#ifndef NEXUS_SERVE_CALL_IDS_H_
#define NEXUS_SERVE_CALL_IDS_H_

#include <string>

namespace nexus::serve {

std::string NewAnswerId();  // "chatcmpl-..."
std::string NewCallId();    // "call_..."

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CALL_IDS_H_
