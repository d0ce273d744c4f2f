// The committed routing set and the committed encoders, as tests use them.
#ifndef NEXUS_EVAL_TESTING_COMMITTED_SET_H_
#define NEXUS_EVAL_TESTING_COMMITTED_SET_H_

#include <memory>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/eval/memo_embedder.h"
#include "nexus/eval/query_file.h"
#include "nexus/route/router.h"
#include "nexus/route/router_profile.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::eval {

inline const std::string kCommittedSet =
    NEXUS_SOURCE_DIR "/tests/data/routing/";
inline const std::string kTunedEncoder = "nexus-route-minilm-Q8_0.gguf";

// An encoder as the product uses it: by what was calibrated for it, if there is
// anything.
struct CommittedEncoder {
  std::unique_ptr<llm::Embedder> encoder;
  std::unique_ptr<MemoEmbedder> memo;
  route::RouterOptions router;
};

inline Result<CommittedEncoder> LoadCommittedEncoder(const std::string& name) {
  llm::EncoderOptions options;
  options.path = NEXUS_SOURCE_DIR "/models/" + name;
  CommittedEncoder loaded;
  NEXUS_ASSIGN_OR_RETURN(loaded.encoder, llm::LoadEncoder(options));
  loaded.memo = std::make_unique<MemoEmbedder>(loaded.encoder.get());
  loaded.router.bm25_weight = route::kUncalibratedBm25Weight;
  const std::string path = route::RouterProfilePath(options.path);
  FileSystem& fs = FileSystem::Default();
  if (fs.Exists(path)) {
    NEXUS_ASSIGN_OR_RETURN(
        const route::RouterProfile profile,
        route::ReadRouterProfile(fs, path, loaded.encoder->fingerprint()));
    loaded.router.bm25_weight = profile.bm25_weight;
    loaded.router.gate.head = profile.head;
  }
  return loaded;
}

inline Result<std::vector<schema::ToolSchema>> CommittedTools() {
  return schema::ReadRegistryFile(kCommittedSet + "tools.jsonl");
}

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_TESTING_COMMITTED_SET_H_
