// AnswerParts: the text and the calls of an answer, put together from a
// stream's chunks or read from a whole one.
#ifndef NEXUS_REMOTE_ANSWER_PARTS_H_
#define NEXUS_REMOTE_ANSWER_PARTS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "nexus/base/json.h"

namespace nexus::remote {

struct RemoteCall {
  std::string id;
  std::string name;
  std::string arguments;  // as the remote wrote them
};

// Of choice 0, the only one that Nexus looks into. Thread-compatible.
class AnswerParts {
 public:
  // Pieces of unexpected shape are passed over.
  void AddChunk(const Json& chunk);
  static AnswerParts OfWhole(const Json& completion);

  const std::string& content() const { return content_; }
  std::vector<RemoteCall> calls() const;

 private:
  std::string content_;
  // By the fragments' own index, which need not begin at 0.
  std::map<int64_t, RemoteCall> calls_;
};

// Whether a chunk has a piece of a call.
bool HasCallFragment(const Json& chunk);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_ANSWER_PARTS_H_
