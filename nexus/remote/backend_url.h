// BackendUrl: where an OpenAI-compatible remote is, and its paths.
#ifndef NEXUS_REMOTE_BACKEND_URL_H_
#define NEXUS_REMOTE_BACKEND_URL_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::remote {

inline constexpr size_t kMaxReplicas = 64;

struct BackendUrl {
  // "http://host:port/v1": for people and metrics, and as OpenAI's clients take
  // it. Holds no secret: user names and queries are refused.
  std::string name;
  std::string chat_path;    // "/v1/chat/completions"
  std::string models_path;  // "/v1/models"
  std::string health_path;  // "/health", of the host itself
  bool is_https = false;
  std::string host;
};

// A base URL as OpenAI's clients take it. Without a path: /v1. A path that ends
// in /chat/completions means the same as without.
Result<BackendUrl> ParseBackendUrl(std::string_view url);

// Each text is one URL or several with commas between them. kInvalidArgument:
// none at all, over kMaxReplicas, one of them twice, one that isn't a URL.
Result<std::vector<BackendUrl>> ParseBackendUrls(
    std::span<const std::string> texts);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_BACKEND_URL_H_
