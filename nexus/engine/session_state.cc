// A session's exact cells, into a file and back, and to another session.
#include <utility>

#include "nexus/compile/block_compiler.h"
#include "nexus/engine/session.h"
#include "nexus/kv/block_writer.h"

namespace nexus::engine {

size_t Session::WholeBatches(size_t count) const {
  const llm::ContextOptions& options = context_->options();
  // Else a call of several batches cuts them elsewhere.
  if (options.batch_tokens % options.ubatch_tokens != 0) return 0;
  const auto batch = static_cast<size_t>(options.ubatch_tokens);
  return count / batch * batch;
}

size_t Session::SharedPrefix(std::span<const llm::Token> tokens) const {
  return WholeBatches(std::min(whole_batches_, ExactPrefix(tokens)));
}

Status Session::CopyPrefix(Session& from, size_t count) {
  NEXUS_RETURN_IF_ERROR(access_status_);
  if (access_ == nullptr || !tokens_.empty() || count > from.whole_batches_ ||
      count != WholeBatches(count)) {
    return UnimplementedError("these cells can't be taken over");
  }
  // A micro-batch at a time bounds the memory that it takes.
  const auto batch = static_cast<size_t>(context_->options().ubatch_tokens);
  const auto copy = [&]() -> Status {
    for (size_t begin = 0; begin < count; begin += batch) {
      NEXUS_ASSIGN_OR_RETURN(const llm::KvRows rows,
                             from.ReadCells(begin, begin + batch));
      NEXUS_RETURN_IF_ERROR(access_
                                ->WriteRows(kConversation,
                                            static_cast<llm::Position>(begin),
                                            rows)
                                .status());
    }
    return Status::Ok();
  };
  if (const Status copied = copy(); !copied.ok()) {
    context_->Clear();
    return copied;
  }
  tokens_.assign(from.tokens_.begin(),
                 from.tokens_.begin() + static_cast<std::ptrdiff_t>(count));
  exact_count_ = count;
  whole_batches_ = count;
  return Status::Ok();
}

Status Session::SaveState(FileSystem& fs, const std::string& path) {
  if (exact_count_ == 0)
    return NotFoundError("the session holds no exact cells");
  if (!HasEngineAttention()) {
    return UnimplementedError("the session's attention isn't the engine's");
  }
  NEXUS_ASSIGN_OR_RETURN(const llm::KvRows rows, ReadCells(0, exact_count_));
  const auto tokens = std::span(tokens_).first(exact_count_);
  kv::BlockContents contents = compile::VariantContents(
      engine_->CompileEnvironmentFor(kv::BlockKind::kVariant, context_.get(),
                                     access_.get()),
      {.tokens = tokens}, rows);
  contents.metadata.recipe = "session";
  return kv::WriteBlockFile(fs, path, contents).status();
}

Result<std::unique_ptr<Session>> Session::LoadState(const Engine* engine,
                                                    const std::string& path) {
  NEXUS_ASSIGN_OR_RETURN(
      const auto block,
      kv::KvBlock::Open(
          path, {.expected = &engine->fingerprint(kv::BlockKind::kVariant)}));
  if (block->kind() != kv::BlockKind::kVariant || block->position() != 0) {
    return CorruptionError(path + ": not a session's cells");
  }
  NEXUS_ASSIGN_OR_RETURN(auto session, Create(engine));
  NEXUS_RETURN_IF_ERROR(engine->splice_status());
  NEXUS_RETURN_IF_ERROR(session->access_status_);
  // The next turn needs a cell as well.
  if (block->token_count() >= session->room()) {
    return ResourceExhaustedError(
        path + ": " + std::to_string(block->token_count()) +
        " tokens, the context has room for " + std::to_string(session->room()) +
        "; raise --ctx");
  }
  NEXUS_RETURN_IF_ERROR(session->WriteExact(*block).status());
  return session;
}

}  // namespace nexus::engine
