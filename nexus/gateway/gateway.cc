#include "nexus/gateway/gateway.h"

#include <algorithm>
#include <utility>

#include "nexus/mcp/json_fields.h"

namespace nexus::gateway {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPoll{20};

// For several threads, one at a time; ends between two batches when the gateway
// does.
class StoppableEmbedder : public llm::Embedder {
 public:
  StoppableEmbedder(llm::Embedder* embedder, const std::atomic<bool>* stop)
      : embedder_(embedder), stop_(stop) {}

  int dimension() const override { return embedder_->dimension(); }
  std::string fingerprint() const override { return embedder_->fingerprint(); }
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole role) override {
    MutexLock lock(mutex_);
    if (*stop_) return CancelledError("the gateway is ending");
    return embedder_->Embed(texts, role);
  }

 private:
  Mutex mutex_;
  llm::Embedder* const embedder_;
  const std::atomic<bool>* const stop_;
};

}  // namespace

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)),
      embedder_(options_.embedder == nullptr
                    ? nullptr
                    : std::make_unique<StoppableEmbedder>(options_.embedder,
                                                          &stop_)) {}

Result<std::unique_ptr<Gateway>> Gateway::Create(GatewayOptions options) {
  if (options.servers.empty()) {
    return InvalidArgumentError(
        "no MCP server is configured; name one in the \"mcpServers\" file");
  }
  std::set<std::string> names;
  for (const mcp::McpServerConfig& config : options.servers) {
    if (!names.insert(config.name).second) {
      return InvalidArgumentError("two MCP servers are named '" + config.name +
                                  "'; rename one");
    }
  }
  // An empty set, so that tools() is never null.
  NEXUS_ASSIGN_OR_RETURN(auto empty,
                         ToolSet::Build({}, nullptr, options.tools));
  std::unique_ptr<Gateway> gateway(new Gateway(std::move(options)));
  {
    MutexLock lock(gateway->mutex_);
    gateway->tools_ = std::move(empty);
  }
  Gateway* self = gateway.get();
  for (const mcp::McpServerConfig& config : self->options_.servers) {
    UpstreamEvents events;
    events.on_change = [self] {
      MutexLock lock(self->mutex_);
      ++self->wanted_version_;
      self->changed_.NotifyAll();
    };
    events.on_notification =
        [self, name = config.name](const mcp::RpcNotification& notification) {
          MutexLock lock(self->listener_mutex_);
          for (Listener* listener : self->listeners_) {
            listener->OnNotification(name, notification);
          }
        };
    events.note = self->options_.note;
    self->upstreams_.push_back(std::make_unique<Upstream>(
        config, self->options_.upstream, std::move(events)));
  }
  for (const auto& upstream : self->upstreams_) upstream->Start();
  self->indexer_ = std::thread([self] { self->Index(); });
  return gateway;
}

Gateway::~Gateway() {
  stop_ = true;
  {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  }
  if (indexer_.joinable()) indexer_.join();
  // Each may take a second to end in peace; together they wait once.
  std::vector<std::thread> threads;
  for (auto& upstream : upstreams_) {
    threads.emplace_back([&upstream] { upstream.reset(); });
  }
  for (std::thread& thread : threads) thread.join();
}

void Gateway::Note(const std::string& text) const {
  if (options_.note) options_.note(text);
}

Upstream* Gateway::FindUpstream(std::string_view name) const {
  for (const auto& upstream : upstreams_) {
    if (upstream->name() == name) return upstream.get();
  }
  return nullptr;
}

std::shared_ptr<const ToolSet> Gateway::tools() const {
  MutexLock lock(mutex_);
  return tools_;
}

bool Gateway::IsSettled() const {
  return built_version_ == wanted_version_ &&
         std::all_of(upstreams_.begin(), upstreams_.end(),
                     [](const auto& upstream) { return upstream->settled(); });
}

bool Gateway::settled() const {
  MutexLock lock(mutex_);
  return IsSettled();
}

std::shared_ptr<const ToolSet> Gateway::AwaitTools(
    const std::atomic<bool>* cancel) {
  const auto deadline = steady_clock::now() + options_.settle_wait;
  MutexLock lock(mutex_);
  while (!IsSettled() && !stop_ && steady_clock::now() < deadline &&
         (cancel == nullptr || !*cancel)) {
    changed_.WaitFor(lock, kPoll);
  }
  return tools_;
}

void Gateway::Add(Listener* listener) {
  MutexLock lock(listener_mutex_);
  listeners_.insert(listener);
}

void Gateway::Remove(Listener* listener) {
  MutexLock lock(listener_mutex_);
  listeners_.erase(listener);
}

void Gateway::BuildTools(llm::Embedder* embedder) {
  std::vector<std::shared_ptr<const UpstreamLists>> lists;
  for (const auto& upstream : upstreams_) {
    lists.push_back(upstream->view().lists);
  }
  auto built = ToolSet::Build(lists, embedder, options_.tools);
  if (!built.ok()) {
    if (!stop_) Note("tools can't be indexed: " + built.status().message());
    return;
  }
  for (const std::string& warning : (*built)->warnings()) Note(warning);
  bool is_other = false;
  {
    MutexLock lock(mutex_);
    is_other = tools_->digest() != (*built)->digest();
    tools_ = std::move(built).value();
  }
  if (!is_other) return;
  MutexLock lock(listener_mutex_);
  for (Listener* listener : listeners_) listener->OnToolsChanged();
}

void Gateway::CompareOffers() {
  Sha256 prompts;
  Sha256 resources;
  for (const auto& upstream : upstreams_) {
    const auto lists = upstream->view().lists;
    for (const Json& entry : lists->prompts) prompts.Update(DumpJson(entry));
    for (const auto* list : {&lists->resources, &lists->templates}) {
      for (const Json& entry : *list) resources.Update(DumpJson(entry));
    }
  }
  const Sha256Digest prompts_now = prompts.Finish();
  const Sha256Digest resources_now = resources.Finish();
  const bool other_prompts =
      std::exchange(prompts_digest_, prompts_now) != prompts_now;
  const bool other_resources =
      std::exchange(resources_digest_, resources_now) != resources_now;
  MutexLock lock(listener_mutex_);
  for (Listener* listener : listeners_) {
    if (other_prompts) listener->OnPromptsChanged();
    if (other_resources) listener->OnResourcesChanged();
  }
}

// A rule that meets nothing is most likely misspelt, and a misspelt --deny is a
// hole.
void Gateway::CheckRules() const {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& upstream : upstreams_) {
    const UpstreamView view = upstream->view();
    for (const schema::ToolSchema& tool : view.lists->tools) {
      names.emplace_back(tool.server, tool.name);
    }
    const auto add = [&](const std::vector<Json>& list, const char* key) {
      for (const Json& entry : list) {
        std::string name = mcp::StringOf(entry, key);
        if (!name.empty()) {
          names.emplace_back(upstream->name(), std::move(name));
        }
      }
    };
    // By what offers.cc asks the rules about.
    add(view.lists->prompts, "name");
    add(view.lists->resources, "uri");
    add(view.lists->templates, "uriTemplate");
  }
  const auto check = [&](const char* flag, const std::string& glob) {
    const bool meets =
        std::any_of(names.begin(), names.end(), [&](const auto& name) {
          return MatchesGlob(glob, name.first, name.second);
        });
    if (!meets) {
      Note(std::string(flag) + " '" + glob +
           "' matches nothing that the servers offer now");
    }
  };
  for (const auto& glob : options_.tools.rules.allow) check("--allow", glob);
  for (const auto& glob : options_.tools.rules.deny) check("--deny", glob);
}

void Gateway::Index() {
  bool is_checked = false;
  while (!stop_) {
    uint64_t version = 0;
    bool check = false;
    bool is_starting = true;
    {
      MutexLock lock(mutex_);
      while (!stop_ && built_version_ == wanted_version_) {
        check = !is_checked && IsSettled();
        if (check) break;
        // Not for ever: that a server has settled comes without a call.
        changed_.WaitFor(lock, is_checked ? milliseconds(1000) : kPoll);
      }
      if (stop_) return;
      version = wanted_version_;
      is_starting = built_version_ == 0 || !is_checked;
    }
    if (check) {
      is_checked = true;
      CheckRules();
      continue;
    }
    CompareOffers();
    // By words first: to embed a thousand tools takes a while.
    if (is_starting || options_.embedder == nullptr) BuildTools(nullptr);
    if (options_.embedder != nullptr) BuildTools(embedder_.get());
    MutexLock lock(mutex_);
    built_version_ = version;
    changed_.NotifyAll();
  }
}

}  // namespace nexus::gateway
