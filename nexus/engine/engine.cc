#include "nexus/engine/engine.h"

#include <cstdio>
#include <thread>
#include <utility>

#include "nexus/base/file_system.h"
#include "nexus/base/json.h"
#include "nexus/compile/block_learner.h"
#include "nexus/engine/attention_probe.h"

namespace nexus::engine {
namespace {

// What else measures and rounds than this machine alone; empty: nothing.
std::string RemoteText(const EngineOptions& options) {
  std::string text;
  for (const std::string& server : options.rpc_servers) {
    text += ", rpc " + server;
  }
  if (!text.empty()) text += ", layers " + std::to_string(options.rpc_layers);
  return text;
}

std::string AttentionKey(const EngineOptions& options, int threads,
                         const std::string& model_sha256) {
  return "attention/" + llm::EngineVersion() + "/" + model_sha256 +
         "/threads " + std::to_string(threads) + "/kv " +
         std::to_string(static_cast<uint32_t>(options.kv_type)) +
         RemoteText(options);
}

std::string TimingText(const AttentionTiming& timing) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%d tokens at depth %d: %.0f ms with flash attention, %.0f ms "
                "without",
                kProbeBatchTokens, timing.depth_tokens, timing.with_flash_ms,
                timing.without_flash_ms);
  return text;
}

AttentionChoice ChooseAttention(const EngineOptions& options,
                                const llm::ContextOptions& context,
                                const std::shared_ptr<const llm::Model>& model,
                                const std::string& model_sha256,
                                kv::BlockStore* store) {
  if (options.flash_attention.has_value()) {
    return {*options.flash_attention, "set by the user"};
  }
  const int threads =
      context.threads > 0
          ? context.threads
          : static_cast<int>(std::thread::hardware_concurrency());
  const std::string key = AttentionKey(options, threads, model_sha256);
  if (store != nullptr) {
    if (auto kept = store->GetSetting(key); kept.ok()) {
      auto value = ParseJson(*kept, "setting " + key);
      if (value.ok() && value->is_object() && value->contains("flash") &&
          (*value)["flash"].is_boolean() && (*value)["reason"].is_string()) {
        return {(*value)["flash"].get<bool>(),
                (*value)["reason"].get<std::string>()};
      }
    }
  }
  const auto timing = TimeAttention(model, context);
  if (!timing.ok()) {
    return {false, "not measured: " + timing.status().message()};
  }
  AttentionChoice choice;
  choice.flash_attention = timing->with_flash_ms < timing->without_flash_ms;
  choice.reason = TimingText(*timing);
  if (store != nullptr) {
    const Json value = {{"flash", choice.flash_attention},
                        {"reason", choice.reason}};
    // A store that can't keep it costs a second at the next start, no more.
    (void)store->PutSetting(key, DumpJson(value)).ok();
  }
  return choice;
}

}  // namespace

std::string DefaultStoreDir() { return UserCacheDir() + "/blocks"; }

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  std::unique_ptr<Engine> engine(new Engine());
  engine->options_ = options;
  if (engine->options_.store_dir.empty()) {
    engine->options_.store_dir = DefaultStoreDir();
  }
  NEXUS_ASSIGN_OR_RETURN(
      engine->model_,
      llm::Model::Load(
          {.path = options.model_path,
           .gpu_layers = options.rpc_servers.empty() ? 0 : options.rpc_layers,
           .rpc_servers = options.rpc_servers}));
  const llm::ModelInfo& info = engine->model_->info();
  if (info.encoder_only) {
    return InvalidArgumentError(
        options.model_path +
        ": this is an encoder; it routes, but can't write arguments");
  }
  engine->planner_ = std::make_unique<PromptPlanner>(engine->model_.get());

  auto store = kv::BlockStore::Open({.dir = engine->options_.store_dir,
                                     .max_bytes = options.store_max_bytes});
  if (store.ok()) {
    engine->store_ = std::move(store).value();
  } else {
    engine->store_status_ = store.status();
  }

  NEXUS_ASSIGN_OR_RETURN(
      const Sha256Digest weights,
      llm::ModelFileHash(options.model_path, UserCacheDir()));
  kv::Fingerprint& print = engine->fingerprint_;
  print.model_sha256 = ToHex(weights);
  print.architecture = info.architecture;
  print.tokenizer =
      engine->model_->Metadata("tokenizer.ggml.model").value_or("none") + ", " +
      std::to_string(info.vocab_size) + " tokens";
  print.chat_template_sha256 = ToHex(Sha256Of(info.chat_template));
  print.engine_version = llm::EngineVersion();

  const llm::ContextOptions context = {.threads = options.threads,
                                       .kv_type = options.kv_type};
  engine->attention_ =
      ChooseAttention(options, context, engine->model_, print.model_sha256,
                      engine->store_.get());
  engine->splice_status_ = engine->ProbeSplicing();
  if (engine->splice_status_.ok()) {
    engine->profile_status_ = engine->LoadProfile();
  }
  engine->variant_fingerprint_ = print;
  engine->variant_fingerprint_.engine_version +=
      engine->attention_.flash_attention ? ", flash attention"
                                         : ", no flash attention";
  engine->variant_fingerprint_.engine_version += RemoteText(options);
  return engine;
}

Status Engine::ProbeSplicing() {
  const llm::ModelInfo& info = model_->info();
  if (info.recurrent || info.hybrid) {
    return UnimplementedError(
        "splice: " + info.architecture +
        " keeps recurrent state, which has no cells to splice");
  }
  if (info.rope == llm::RopeKind::kMultimodal) {
    return UnimplementedError("splice: multimodal RoPE isn't supported");
  }
  // Deep enough that a wrong base or scaling shows; see rope_probe.h.
  NEXUS_ASSIGN_OR_RETURN(auto context, NewContext(4096));
  NEXUS_ASSIGN_OR_RETURN(auto access, llm::KvAccess::Create(context.get()));
  layout_ = access->layout();
  NEXUS_ASSIGN_OR_RETURN(rope_, llm::ProbeRope(*context, *access));
  fingerprint_.rope = rope_.Describe();
  fingerprint_.kv_layout = kv::DescribeKvLayout(layout_);
  return Status::Ok();
}

Status Engine::LoadProfile() {
  FileSystem& fs = FileSystem::Default();
  if (!options_.profile_path.empty()) {
    NEXUS_ASSIGN_OR_RETURN(
        profile_, ReadProfile(fs, options_.profile_path, &fingerprint_));
    return Status::Ok();
  }
  std::vector<std::string> dirs = {UserProfileDir()};
  dirs.insert(dirs.end(), options_.profile_dirs.begin(),
              options_.profile_dirs.end());
  NEXUS_ASSIGN_OR_RETURN(profile_, FindProfile(fs, dirs, fingerprint_));
  return Status::Ok();
}

llm::ContextOptions Engine::ContextSettings() const {
  return {.context_tokens = options_.context_tokens,
          .threads = options_.threads,
          .flash_attention = attention_.flash_attention,
          .kv_type = options_.kv_type};
}

Result<std::unique_ptr<llm::Context>> Engine::NewContext(
    int context_tokens) const {
  llm::ContextOptions settings = ContextSettings();
  if (context_tokens > 0) settings.context_tokens = context_tokens;
  return llm::Context::Create(model_, settings);
}

Result<std::unique_ptr<llm::Context>> Engine::NewStepContext(
    int sequences) const {
  llm::ContextOptions settings = ContextSettings();
  settings.batch_tokens = sequences;
  settings.ubatch_tokens = sequences;
  settings.sequences = sequences;
  settings.unified = false;
  return llm::Context::Create(model_, settings);
}

kv::BlockKey Engine::SpliceKey(std::span<const llm::Token> block,
                               int contexts) const {
  return {.fingerprint = fingerprint_.Digest(),
          .kind = kv::BlockKind::kSplice,
          .content = kv::SpliceContent(
              block, compile::RecipeName(planner_->frame(), contexts))};
}

Result<std::shared_ptr<const kv::KvBlock>> Engine::FindSplice(
    std::span<const llm::Token> block) const {
  NEXUS_RETURN_IF_ERROR(store_status_);
  // At equal numbers the compiled one: its contexts vary on purpose.
  std::vector<kv::BlockKey> keys;
  for (int contexts = static_cast<int>(compile::CompileTexts().size());
       contexts > 0; --contexts) {
    keys.push_back(SpliceKey(block, contexts));
  }
  keys.push_back(TrafficKey(block));
  Status damaged;
  std::shared_ptr<const kv::KvBlock> best;
  for (const kv::BlockKey& key : keys) {
    if (!store_->Contains(key)) continue;
    auto found = store_->Find(key, {.expected = &fingerprint_});
    if (!found.ok()) {
      if (damaged.ok()) damaged = found.status();
    } else if (best == nullptr || (*found)->metadata().context_count >
                                      best->metadata().context_count) {
      best = *std::move(found);
    }
  }
  if (best != nullptr) return best;
  if (!damaged.ok()) return damaged;
  return NotFoundError(
      "splice: no block of this schema yet; a text prefill teaches one, `nexus "
      "compile` makes it beforehand");
}

kv::BlockKey Engine::TrafficKey(std::span<const llm::Token> block) const {
  return {.fingerprint = fingerprint_.Digest(),
          .kind = kv::BlockKind::kSplice,
          .content = kv::SpliceContent(
              block, compile::TrafficRecipeName(planner_->frame()))};
}

kv::BlockKey Engine::SchemaKey(std::span<const llm::Token> block) const {
  return {.fingerprint = fingerprint_.Digest(),
          .kind = kv::BlockKind::kSplice,
          .content = kv::SpliceContent(block, "")};
}

kv::BlockKey Engine::VariantKey(std::span<const llm::Token> preceding,
                                std::span<const llm::Token> block) const {
  return {.fingerprint = variant_fingerprint_.Digest(),
          .kind = kv::BlockKind::kVariant,
          .content = kv::VariantContent(preceding, block)};
}

compile::CompileEnvironment Engine::CompileEnvironmentFor(
    kv::BlockKind kind, llm::Context* context, llm::KvAccess* access) const {
  return {.context = context,
          .access = access,
          .rope = &rope_,
          .store = store_.get(),
          .fingerprint = fingerprint(kind)};
}

}  // namespace nexus::engine
