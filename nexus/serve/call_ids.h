// Ids of answers, items and calls: unlike in one process, and between
// processes.
#ifndef NEXUS_SERVE_CALL_IDS_H_
#define NEXUS_SERVE_CALL_IDS_H_

#include <string>
#include <string_view>

namespace nexus::serve {

// OpenAI's ids say by their beginning what they are of: "chatcmpl-", "resp_",
// "msg_", "fc_", "call_".
std::string NewId(std::string_view prefix);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CALL_IDS_H_
