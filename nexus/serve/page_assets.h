// The page at /: files of nexus/serve/page, inside the program.
#ifndef NEXUS_SERVE_PAGE_ASSETS_H_
#define NEXUS_SERVE_PAGE_ASSETS_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/net/http_server.h"

namespace nexus::serve {

// cmake/EmbedText.cmake makes these.
extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageAsk;
extern const std::string_view kPageCalibration;
extern const std::string_view kPageChart;
extern const std::string_view kPageDom;
extern const std::string_view kPageEvents;
extern const std::string_view kPageMain;
extern const std::string_view kPageMetrics;
extern const std::string_view kPageReport;
extern const std::string_view kPageStore;
extern const std::string_view kPageTools;

struct PageAsset {
  std::string_view path;  // of the request
  std::string_view content_type;
  std::string_view text;
};

// Null: no such file.
const PageAsset* FindPageAsset(std::string_view path);
// What a browser may load before it can send a key.
std::vector<std::string> PagePaths();

// With headers that keep the page to itself: it loads from this server alone,
// runs no script but its files, and stands in no other site's frame.
net::ServerResponse PageResponse(const PageAsset& asset);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_PAGE_ASSETS_H_
