#include "nexus/gateway/upstream.h"

#include <algorithm>
#include <random>
#include <utility>

#include "nexus/base/hash.h"

namespace nexus::gateway {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string Seconds(milliseconds time) {
  return std::to_string((time.count() + 999) / 1000) + " s";
}

bool IsListChange(const std::string& method) {
  return method == "notifications/tools/list_changed" ||
         method == "notifications/prompts/list_changed" ||
         method == "notifications/resources/list_changed";
}

}  // namespace

Upstream::Upstream(mcp::McpServerConfig config, UpstreamOptions options,
                   UpstreamEvents events)
    : config_(std::move(config)),
      options_(std::move(options)),
      events_(std::move(events)),
      lists_(std::make_shared<UpstreamLists>()) {
  options_.client.cancel = &stop_;
  options_.client.on_notification =
      [this](const mcp::RpcNotification& notification) {
        OnNotification(notification);
      };
  options_.client.on_closed = [this] {
    MutexLock lock(mutex_);
    gone_ = true;
    changed_.NotifyAll();
  };
}

Upstream::~Upstream() {
  stop_ = true;
  {
    MutexLock lock(mutex_);
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Upstream::Start() {
  if (config_.disabled) {
    MutexLock lock(mutex_);
    state_ = UpstreamState::kDisabled;
    problem_ = "it is disabled in the configuration";
    settled_ = true;
    return;
  }
  thread_ = std::thread([this] { Run(); });
}

void Upstream::Note(const std::string& text) const {
  if (events_.note) events_.note(text);
}

void Upstream::OnNotification(const mcp::RpcNotification& notification) {
  if (IsListChange(notification.method)) {
    MutexLock lock(mutex_);
    list_again_ = true;
    changed_.NotifyAll();
  } else if (events_.on_notification) {
    events_.on_notification(notification);
  }
}

UpstreamView Upstream::view() const {
  MutexLock lock(mutex_);
  UpstreamView view{.state = state_, .problem = problem_, .info = info_};
  view.lists = lists_;
  if (state_ == UpstreamState::kDown) {
    view.retry_in =
        std::max(milliseconds(0),
                 duration_cast<milliseconds>(retry_at_ - steady_clock::now()));
  }
  return view;
}

void Upstream::Run() {
  // Different for each server, so that those that died together don't start
  // together.
  std::mt19937_64 random(Xxh3(config_.name.data(), config_.name.size()));
  int failures = 0;
  while (!stop_) {
    Status status = Open();
    if (status.ok()) {
      if (events_.on_change) events_.on_change();
      settled_ = true;
      const auto ready_at = steady_clock::now();
      Serve();
      if (stop_) break;
      if (steady_clock::now() - ready_at >= options_.stable_after) {
        failures = 0;
      }
      std::shared_ptr<mcp::McpClient> gone;
      {
        MutexLock lock(mutex_);
        gone.swap(client_);
      }
      // On a connection that has gone this returns at once, with the reason.
      status = gone->Ping(1);
      if (status.ok()) status = UnavailableError("the connection was lost");
    }
    if (stop_) break;
    SetDown(status,
            remote::BackoffDelay(options_.backoff, failures++,
                                 std::generate_canonical<double, 53>(random)));
  }
  std::shared_ptr<mcp::McpClient> last;
  {
    MutexLock lock(mutex_);
    last.swap(client_);
    state_ = UpstreamState::kDown;
    problem_ = "the gateway is ending";
  }
}

Status Upstream::Open() {
  {
    MutexLock lock(mutex_);
    state_ = UpstreamState::kStarting;
    gone_ = false;
    list_again_ = false;
  }
  NEXUS_ASSIGN_OR_RETURN(std::shared_ptr<mcp::McpClient> client,
                         mcp::McpClient::Connect(config_, options_.client));
  NEXUS_ASSIGN_OR_RETURN(auto lists, List(client.get()));
  MutexLock lock(mutex_);
  info_ = client->server_info();
  lists_ = std::move(lists);
  client_ = std::move(client);
  state_ = UpstreamState::kReady;
  problem_.clear();
  changed_.NotifyAll();
  return {};
}

Result<std::shared_ptr<const UpstreamLists>> Upstream::List(
    mcp::McpClient* client) {
  auto lists = std::make_shared<UpstreamLists>();
  std::vector<std::string> skipped;
  const mcp::ServerInfo& info = client->server_info();
  if (info.Has("tools")) {
    NEXUS_ASSIGN_OR_RETURN(lists->tools,
                           client->ListTools(&skipped, &lists->raw_tools));
  }
  // A server whose prompts can't be listed still has its tools.
  const auto more = [&](const char* capability, const char* method,
                        const char* key, std::vector<Json>* out) {
    if (!info.Has(capability)) return;
    auto entries = client->ListAll(method, key, &skipped);
    if (entries.ok()) {
      *out = std::move(entries).value();
    } else {
      skipped.push_back(entries.status().message());
    }
  };
  more("prompts", "prompts/list", "prompts", &lists->prompts);
  more("resources", "resources/list", "resources", &lists->resources);
  more("resources", "resources/templates/list", "resourceTemplates",
       &lists->templates);
  for (const std::string& line : skipped) {
    Note("MCP server '" + config_.name + "': " + line);
  }
  return std::shared_ptr<const UpstreamLists>(std::move(lists));
}

void Upstream::Serve() {
  while (true) {
    std::shared_ptr<mcp::McpClient> client;
    {
      MutexLock lock(mutex_);
      while (!stop_ && !gone_ && !list_again_) changed_.Wait(lock);
      if (stop_ || gone_) return;
      list_again_ = false;
      client = client_;
    }
    auto lists = List(client.get());
    if (!lists.ok()) {
      // It lives, so its old list is better than none.
      Note(lists.status().message());
      continue;
    }
    {
      MutexLock lock(mutex_);
      lists_ = std::move(lists).value();
    }
    if (events_.on_change) events_.on_change();
  }
}

void Upstream::SetDown(const Status& why, milliseconds pause) {
  const auto retry_at = steady_clock::now() + pause;
  {
    MutexLock lock(mutex_);
    state_ = UpstreamState::kDown;
    problem_ = why.message();
    retry_at_ = retry_at;
    changed_.NotifyAll();
  }
  Note(why.message() + ". Next attempt in " + Seconds(pause));
  if (events_.on_change) events_.on_change();
  settled_ = true;
  MutexLock lock(mutex_);
  while (!stop_ && steady_clock::now() < retry_at) {
    changed_.WaitUntil(lock, retry_at);
  }
}

Result<std::shared_ptr<mcp::McpClient>> Upstream::LiveClient(
    const std::atomic<bool>* cancel) {
  constexpr milliseconds kPoll{50};
  MutexLock lock(mutex_);
  while (state_ == UpstreamState::kStarting && !stop_) {
    if (cancel != nullptr && *cancel) return CancelledError("cancelled");
    changed_.WaitFor(lock, kPoll);
  }
  if (state_ == UpstreamState::kReady && client_ != nullptr && !gone_) {
    return client_;
  }
  std::string message = problem_.empty()
                            ? "MCP server '" + config_.name + "' has gone"
                            : problem_;
  if (state_ == UpstreamState::kDisabled) {
    message = "MCP server '" + config_.name + "': " + problem_;
  } else if (state_ == UpstreamState::kDown) {
    const auto left =
        duration_cast<milliseconds>(retry_at_ - steady_clock::now());
    message +=
        ". It is started again in " + Seconds(std::max(milliseconds(0), left));
  } else {
    message += ". It is being started again";
  }
  return UnavailableError(std::move(message));
}

Result<mcp::RpcResponse> Upstream::Request(const std::string& method,
                                           Json params,
                                           const mcp::CallOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(const auto client, LiveClient(options.cancel));
  return client->Request(method, std::move(params), options);
}

}  // namespace nexus::gateway
