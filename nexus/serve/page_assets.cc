#include "nexus/serve/page_assets.h"

#include <algorithm>
#include <array>

namespace nexus::serve {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kCss = "text/css; charset=utf-8";
constexpr std::string_view kJs = "text/javascript; charset=utf-8";

// In a function: the texts are made in another file, perhaps later.
const std::array<PageAsset, 12>& Assets() {
  static const std::array<PageAsset, 12> assets = {{
      {"/", kHtml, kPageHtml},
      {"/page/page.css", kCss, kPageCss},
      {"/page/ask.js", kJs, kPageAsk},
      {"/page/calibration.js", kJs, kPageCalibration},
      {"/page/chart.js", kJs, kPageChart},
      {"/page/dom.js", kJs, kPageDom},
      {"/page/events.js", kJs, kPageEvents},
      {"/page/main.js", kJs, kPageMain},
      {"/page/metrics.js", kJs, kPageMetrics},
      {"/page/report.js", kJs, kPageReport},
      {"/page/store.js", kJs, kPageStore},
      {"/page/tools.js", kJs, kPageTools},
  }};
  return assets;
}

}  // namespace

const PageAsset* FindPageAsset(std::string_view path) {
  const auto& assets = Assets();
  const auto found =
      std::find_if(assets.begin(), assets.end(),
                   [&](const PageAsset& asset) { return asset.path == path; });
  return found == assets.end() ? nullptr : &*found;
}

std::vector<std::string> PagePaths() {
  std::vector<std::string> paths;
  for (const PageAsset& asset : Assets()) paths.emplace_back(asset.path);
  return paths;
}

net::ServerResponse PageResponse(const PageAsset& asset) {
  net::ServerResponse response;
  response.content_type = asset.content_type;
  response.body = asset.text;
  response.headers["Content-Security-Policy"] =
      "default-src 'none'; script-src 'self'; style-src 'self'; "
      "connect-src 'self'; img-src data:; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'";
  response.headers["X-Content-Type-Options"] = "nosniff";
  response.headers["Referrer-Policy"] = "no-referrer";
  // The next version of the program has another page.
  response.headers["Cache-Control"] = "no-cache";
  return response;
}

}  // namespace nexus::serve
