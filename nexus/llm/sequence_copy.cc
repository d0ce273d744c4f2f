#include "nexus/llm/sequence_copy.h"

#include <string>

#include "llama.h"

#include "nexus/llm/engine_log.h"
#include "nexus/llm/kv_blob.h"

namespace nexus::llm {

Status SaveSequence(const Context& context, SequenceId sequence,
                    std::vector<uint8_t>* blob) {
  const size_t size =
      llama_state_seq_get_size_ext(context.handle(), sequence, 0);
  if (size == 0) return InternalError("the engine can't serialise KV cells");
  blob->resize(size);
  const size_t written = llama_state_seq_get_data_ext(
      context.handle(), blob->data(), blob->size(), sequence, 0);
  if (written != size) {
    return InternalError("the engine wrote " + std::to_string(written) +
                         " bytes of KV state, it had announced " +
                         std::to_string(size));
  }
  return Status::Ok();
}

Status CopySequence(const Context& from, SequenceId sequence, Context* to,
                    SequenceId target) {
  to->RemoveCells(target, -1, -1);
  std::vector<uint8_t> blob;
  NEXUS_RETURN_IF_ERROR(SaveSequence(from, sequence, &blob));
  // Parsed even where it goes on as it is: what isn't plain cells is refused.
  NEXUS_ASSIGN_OR_RETURN(const KvBlobView view, ParseKvBlob(blob));
  if (!to->options().unified && to->options().sequences > 1) {
    blob =
        WithStreams(blob, view, static_cast<uint32_t>(to->options().sequences));
  }
  const EngineLogCapture log;
  const size_t used = llama_state_seq_set_data_ext(to->handle(), blob.data(),
                                                   blob.size(), target, 0);
  if (used == blob.size()) return Status::Ok();
  to->RemoveCells(target, -1, -1);
  if (log.Contains("available cells")) {
    return ResourceExhaustedError("no room for the " +
                                  std::to_string(from.PositionEnd(sequence)) +
                                  " cells of a sequence");
  }
  return InternalError("the engine refused a sequence's cells: " +
                       log.LastErrors());
}

}  // namespace nexus::llm
