#include "nexus/remote/backend_url.h"

#include <algorithm>

#include "nexus/net/http_client.h"

namespace nexus::remote {

Result<BackendUrl> ParseBackendUrl(std::string_view url) {
  NEXUS_ASSIGN_OR_RETURN(const net::HttpUrl parsed, net::ParseHttpUrl(url));
  if (parsed.path.find('?') != std::string::npos) {
    // The text stays out of the message: keys have been seen in queries.
    return InvalidArgumentError(
        "--backend: the URL of host '" + parsed.host +
        "' has a query; keys go into the environment, and APIs that need a "
        "query aren't supported");
  }
  std::string base = parsed.path;
  constexpr std::string_view kChat = "/chat/completions";
  while (base.ends_with('/')) base.pop_back();
  if (base.ends_with(kChat)) base.resize(base.size() - kChat.size());
  while (base.ends_with('/')) base.pop_back();
  if (base.empty()) base = "/v1";
  BackendUrl result;
  const std::string host = parsed.host.find(':') == std::string::npos
                               ? parsed.host
                               : "[" + parsed.host + "]";
  result.name =
      parsed.scheme + "://" + host + ":" + std::to_string(parsed.port) + base;
  result.chat_path = base + std::string(kChat);
  result.models_path = base + "/models";
  result.health_path = "/health";
  result.is_https = parsed.scheme == "https";
  result.host = parsed.host;
  return result;
}

Result<std::vector<BackendUrl>> ParseBackendUrls(
    std::span<const std::string> texts) {
  std::vector<BackendUrl> urls;
  for (const std::string& text : texts) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view item = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (item.empty()) continue;
      NEXUS_ASSIGN_OR_RETURN(BackendUrl url, ParseBackendUrl(item));
      if (std::any_of(urls.begin(), urls.end(), [&](const BackendUrl& other) {
            return other.name == url.name;
          })) {
        return InvalidArgumentError("--backend: " + url.name +
                                    " is named twice");
      }
      urls.push_back(std::move(url));
    }
  }
  if (urls.empty()) return InvalidArgumentError("--backend: expected a URL");
  if (urls.size() > kMaxReplicas) {
    return InvalidArgumentError("--backend: at most " +
                                std::to_string(kMaxReplicas) + " URLs");
  }
  return urls;
}

}  // namespace nexus::remote
