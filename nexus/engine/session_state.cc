// A session's exact cells, into a file and back.
#include <utility>

#include "nexus/compile/block_compiler.h"
#include "nexus/engine/session.h"
#include "nexus/kv/block_writer.h"

namespace nexus::engine {

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
