// OriginRules: which web pages may send requests to a server, and what their
// browsers are told about it.
//
// A page of any site, open in the user's browser, may send requests to loopback
// and to the local network; they look like any other but for their Origin
// header. A page on loopback is the user's own. So is, in the browser's eyes,
// one that came from the host that its request goes to; but with DNS rebinding
// any site can look like that, so it counts only where requests need a key,
// which browsers don't send by themselves. Others have to be named.
#ifndef NEXUS_NET_ORIGIN_RULES_H_
#define NEXUS_NET_ORIGIN_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/net/http_client.h"

namespace nexus::net {

// Thread-safe.
class OriginRules {
 public:
  struct Options {
    // Exactly as browsers write them: CheckOrigin is ok.
    std::vector<std::string> allowed;
    // Pages of the host that the request names: its Host header.
    bool own_host = false;
  };
  explicit OriginRules(Options options) : options_(std::move(options)) {}

  // Empty `origin`: not of a page.
  bool Admits(std::string_view origin, std::string_view host) const;

  // Of the answer, whatever it is: lets the page of an allowed origin read it.
  HttpHeaders AnswerHeaders(std::string_view origin) const;
  // What a browser asks for before it sends a request of an allowed origin:
  // "may it have this method and these headers?". Empty: the origin isn't
  // allowed.
  HttpHeaders PreflightHeaders(std::string_view origin,
                               std::string_view wanted_headers) const;

 private:
  bool IsAllowed(std::string_view origin) const;

  const Options options_;
};

// kInvalidArgument: no browser ever sends this as its origin, and why.
Status CheckOrigin(std::string_view origin);

// "127.0.0.1", "::1", "localhost".
bool IsLoopback(std::string_view host);

}  // namespace nexus::net

#endif  // NEXUS_NET_ORIGIN_RULES_H_
