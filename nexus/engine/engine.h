// Engine: a model made ready to be asked, and everything that is the same for
// all of its sessions: weights, prompt planner, block store, the proven RoPE of
// each layer, the fingerprint that blocks are matched by.
//
// Fail closed: what keeps Nexus from splicing (unknown RoPE, a recurrent model,
// no store) is kept as a Status with its reason; the engine then prefills text.
#ifndef NEXUS_ENGINE_ENGINE_H_
#define NEXUS_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/compile/block_compiler.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/repair_profile.h"
#include "nexus/kv/block_store.h"
#include "nexus/kv/fingerprint.h"
#include "nexus/llm/context.h"
#include "nexus/llm/kv_access.h"
#include "nexus/llm/model.h"
#include "nexus/llm/rope_probe.h"

namespace nexus::engine {

struct EngineOptions {
  std::string model_path;
  std::string store_dir;  // empty: DefaultStoreDir()
  uint64_t store_max_bytes = uint64_t{8} << 30;
  int context_tokens = 8192;
  int threads = 0;  // 0: one per core
  // llm::ModelOptions::rpc_servers, and the layers that they have; < 0: all.
  std::vector<std::string> rpc_servers;
  int rpc_layers = -1;
  // Unset: measured once on this machine and kept in the store.
  std::optional<bool> flash_attention;
  llm::KvType kv_type = llm::KvType::kF16;
  // Folders with calibrated profiles, searched behind UserProfileDir(). A
  // profile_path is read instead of all of them.
  std::vector<std::string> profile_dirs;
  std::string profile_path;
  // Schemas decoded as text are folded into their blocks (Session::Learn).
  bool learn = true;
};

std::string DefaultStoreDir();

// How the cache's attention was chosen, for `doctor`.
struct AttentionChoice {
  bool flash_attention = false;
  std::string reason;
};

// Thread-compatible. Sessions hold a pointer to it, so it must outlive them.
class Engine {
 public:
  // Fails only where nothing could be asked at all: no model, no memory.
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);

  const EngineOptions& options() const { return options_; }
  const llm::Model& model() const { return *model_; }
  const std::shared_ptr<const llm::Model>& shared_model() const {
    return model_;
  }
  const PromptPlanner& planner() const { return *planner_; }
  const AttentionChoice& attention() const { return attention_; }
  // A compiled block is good under either attention setting; exact cells are
  // only exact under the one that made them, so their fingerprint names it.
  const kv::Fingerprint& fingerprint(kv::BlockKind kind) const {
    return kind == kv::BlockKind::kVariant ? variant_fingerprint_
                                           : fingerprint_;
  }

  // Null when the store couldn't be opened; store_status says why.
  kv::BlockStore* store() const { return store_.get(); }
  const Status& store_status() const { return store_status_; }

  // What calibration found out about this model; null: profile_status says why
  // there is none.
  const RepairProfile* profile() const {
    return profile_.has_value() ? &*profile_ : nullptr;
  }
  const Status& profile_status() const { return profile_status_; }

  // ok: blocks of this model can be spliced here.
  const Status& splice_status() const { return splice_status_; }
  const llm::RopeSpec& rope() const { return rope_; }
  const llm::KvLayout& kv_layout() const { return layout_; }

  // A context with this engine's settings and room for `context_tokens` cells
  // (0: options().context_tokens).
  Result<std::unique_ptr<llm::Context>> NewContext(
      int context_tokens = 0) const;
  // One in which `sequences` sequences are continued side by side, with room
  // for options().context_tokens each; for Context::DecodeNext alone.
  Result<std::unique_ptr<llm::Context>> NewStepContext(int sequences) const;

  // The block of these tokens with the most samples behind it, compiled or
  // learned, mapped and verified. kNotFound: there is none yet.
  Result<std::shared_ptr<const kv::KvBlock>> FindSplice(
      std::span<const llm::Token> block) const;
  // The store's key of a block compiled after `contexts` compile contexts.
  kv::BlockKey SpliceKey(std::span<const llm::Token> block, int contexts) const;
  // The key of a block that was never compiled, learned from traffic alone.
  kv::BlockKey TrafficKey(std::span<const llm::Token> block) const;
  // Stands for a schema whatever blocks there are of it: what audits found is
  // kept under it. No block has it.
  kv::BlockKey SchemaKey(std::span<const llm::Token> block) const;
  // The key of exact cells: `preceding` is every token before them.
  kv::BlockKey VariantKey(std::span<const llm::Token> preceding,
                          std::span<const llm::Token> block) const;

  // What the block compiler needs. The store must be open.
  compile::CompileEnvironment CompileEnvironmentFor(
      kv::BlockKind kind, llm::Context* context, llm::KvAccess* access) const;

 private:
  Engine() = default;
  llm::ContextOptions ContextSettings() const;
  Status ProbeSplicing();
  Status LoadProfile();

  EngineOptions options_;
  std::shared_ptr<const llm::Model> model_;
  std::unique_ptr<PromptPlanner> planner_;
  std::unique_ptr<kv::BlockStore> store_;
  Status store_status_;
  AttentionChoice attention_;
  std::optional<RepairProfile> profile_;
  Status profile_status_;
  Status splice_status_;
  llm::RopeSpec rope_;
  llm::KvLayout layout_;
  kv::Fingerprint fingerprint_;
  kv::Fingerprint variant_fingerprint_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_ENGINE_H_
