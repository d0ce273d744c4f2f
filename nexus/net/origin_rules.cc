#include "nexus/net/origin_rules.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace nexus::net {
namespace {

bool IsHeaderListChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == ',' || c == ' ';
}

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) {
                      return std::tolower(x) == std::tolower(y);
                    });
}

// Scheme and Host header say together where a browser sent its request; it
// leaves a usual port out of both.
bool IsOfHost(const HttpUrl& origin, std::string_view host) {
  if (host.empty()) return false;
  const auto own = ParseHttpUrl(origin.scheme + "://" + std::string(host));
  return own.ok() && SameName(own->host, origin.host) &&
         own->port == origin.port;
}

}  // namespace

bool OriginRules::IsAllowed(std::string_view origin) const {
  return std::find(options_.allowed.begin(), options_.allowed.end(), origin) !=
         options_.allowed.end();
}

bool OriginRules::Admits(std::string_view origin, std::string_view host) const {
  if (origin.empty() || IsAllowed(origin)) return true;
  const auto url = ParseHttpUrl(origin);
  if (!url.ok()) return false;
  return IsLoopback(url->host) || (options_.own_host && IsOfHost(*url, host));
}

HttpHeaders OriginRules::AnswerHeaders(std::string_view origin) const {
  HttpHeaders headers;
  // Who caches an answer mustn't give it to a page of another origin.
  if (!options_.allowed.empty()) headers["Vary"] = "Origin";
  if (!IsAllowed(origin)) return headers;
  headers["Access-Control-Allow-Origin"] = origin;
  headers["Access-Control-Expose-Headers"] = "Retry-After, X-Request-Id";
  return headers;
}

HttpHeaders OriginRules::PreflightHeaders(
    std::string_view origin, std::string_view wanted_headers) const {
  HttpHeaders headers;
  if (!IsAllowed(origin)) return headers;
  headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE";
  // Clients send headers of their own: OpenAI's has a dozen.
  if (!wanted_headers.empty() &&
      std::all_of(wanted_headers.begin(), wanted_headers.end(),
                  IsHeaderListChar)) {
    headers["Access-Control-Allow-Headers"] = wanted_headers;
  }
  headers["Access-Control-Max-Age"] = "600";
  return headers;
}

Status CheckOrigin(std::string_view origin) {
  const auto bad = [&](std::string_view reason) {
    return InvalidArgumentError("origin '" + std::string(origin) +
                                "': " + std::string(reason));
  };
  const size_t scheme_end = origin.find("://");
  if (scheme_end == std::string_view::npos || scheme_end == 0) {
    return bad("expected SCHEME://HOST or SCHEME://HOST:PORT");
  }
  const std::string_view authority = origin.substr(scheme_end + 3);
  if (authority.empty()) return bad("has no host");
  for (const char c : origin) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '*') {
      return bad("there are no patterns and no blanks: name each origin whole");
    }
    if (c >= 'A' && c <= 'Z') return bad("browsers write it in small letters");
  }
  if (authority.find_first_of("/?#@") != std::string_view::npos) {
    return bad("ends behind host and port");
  }
  const std::string_view scheme = origin.substr(0, scheme_end);
  // Browser extensions and desktop shells have schemes of their own.
  if (scheme != "http" && scheme != "https") return Status::Ok();
  NEXUS_RETURN_IF_ERROR(ParseHttpUrl(origin).status());
  if (authority.ends_with(scheme == "http" ? ":80" : ":443")) {
    return bad("browsers leave the usual port out");
  }
  return Status::Ok();
}

bool IsLoopback(std::string_view host) {
  if (host == "localhost" || host == "::1") return true;
  // Only an address: "127.example.com" is a name that leads anywhere.
  in_addr address{};
  return ::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24U == 127;
}

}  // namespace nexus::net
