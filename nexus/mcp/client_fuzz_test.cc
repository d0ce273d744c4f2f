// The client over a transport that garbles what a server says: whatever comes,
// every call ends with a result or a Status, and the client stays in one piece.
// Seeded, so that a failure can be run again.
#include <random>
#include <utility>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/mcp/client.h"

namespace nexus::mcp {
namespace {

class GarblingTransport final : public Transport {
 public:
  explicit GarblingTransport(unsigned seed) : random_(seed) {}

  // The handshake goes through unharmed, so that the rest can be reached.
  void set_garble(bool garble) { garble_ = garble; }

  Status Start(Handlers handlers) override {
    handlers_ = std::move(handlers);
    return {};
  }

  Status Send(std::string_view message, const SendOptions&) override {
    const auto request = ParseJson(message, "client");
    EXPECT_OK(request);
    if (!request.ok() || !request->contains("id") ||
        !request->contains("method")) {
      return {};
    }
    const Json& id = (*request)["id"];
    const std::string method = (*request)["method"].get<std::string>();
    for (std::string text : Script(id, method)) {
      if (garble_) Garble(&text);
      handlers_.on_message(text);
    }
    // Some answers are lost, as a stream's oversized line would be; this also
    // keeps the calls whose id was garbled from waiting for their timeout.
    handlers_.on_lost(ResourceExhaustedError("lost"));
    return {};
  }

  void SetProtocolVersion(const std::string&) override {}
  Status Close() override { return {}; }
  std::string Diagnostics() const override { return "fuzz"; }

 private:
  static std::vector<std::string> Script(const Json& id,
                                         const std::string& method) {
    Json result = Json::object();
    if (method == "initialize") {
      result = {{"protocolVersion", "2025-11-25"},
                {"capabilities", {{"tools", Json::object()}}},
                {"serverInfo", {{"name", "f"}, {"version", "1"}}}};
    } else if (method == "tools/list") {
      result = Json::parse(
          R"({"tools":[{"name":"a","description":"d","inputSchema":{"type":
          "object","properties":{"x":{"type":"string","enum":["p","q"]}},
          "required":["x"]},"annotations":{"readOnlyHint":true}},
          {"name":"b","inputSchema":{"type":"object"}}]})");
    } else if (method == "tools/call") {
      result = Json::parse(
          R"({"content":[{"type":"text","text":"t"},{"type":"image",
          "mimeType":"image/png","data":"AA"},{"type":"resource","resource":
          {"uri":"u"}}],"structuredContent":{"k":[1,2]},"isError":false})");
    }
    return {R"({"jsonrpc":"2.0","method":"notifications/progress","params":)"
            R"({"progressToken":)" +
                DumpJson(id) + R"(,"progress":1,"message":"m"}})",
            R"({"jsonrpc":"2.0","method":"notifications/message","params":)"
            R"({"level":"info","data":{"a":1}}})",
            R"({"jsonrpc":"2.0","id":"q","method":"roots/list","params":{}})",
            DumpJson({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}})};
  }

  void Garble(std::string* text) {
    static constexpr std::string_view kPieces[] = {
        "null",       "{}",       "[]",  "\"\"", "-1", "1e400", "true",
        "\"error\":", "{",        "}",   "[",    "]",  "\"",    ",",
        ":",          "\xF0\x9F", "\\u", "1e-5", "\n", "2.0",   "\"id\":"};
    for (size_t edits = random_() % 4; edits > 0 && !text->empty(); --edits) {
      const size_t at = random_() % text->size();
      switch (random_() % 6) {
        case 0:
          (*text)[at] = static_cast<char>(random_() % 256);
          break;
        case 1:
          text->erase(at, 1 + random_() % 16);
          break;
        case 2:
          text->insert(at, kPieces[random_() % std::size(kPieces)]);
          break;
        case 3:
          text->resize(at);
          break;
        case 4:
          ReplaceAValue(text);
          break;
        default:
          *text += *text;
      }
    }
  }

  // Keeps the text valid JSON, with one value of another type somewhere: gets
  // past the parser, to the code that reads the fields.
  void ReplaceAValue(std::string* text) {
    Json root = Json::parse(*text, nullptr, false);
    if (root.is_discarded()) return;
    Json* at = &root;
    while (at->is_structured() && !at->empty() && random_() % 5 != 0) {
      auto child = at->begin();
      std::advance(child, static_cast<int>(random_() % at->size()));
      at = &*child;
    }
    switch (random_() % 6) {
      case 0:
        *at = nullptr;
        break;
      case 1:
        *at = -7.5;
        break;
      case 2:
        *at = "text";
        break;
      case 3:
        *at = Json::array({1, Json::object()});
        break;
      case 4:
        *at = Json::object();
        break;
      default:
        *at = 18446744073709551615u;
    }
    *text = root.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  Handlers handlers_;
  std::mt19937 random_;
  bool garble_ = false;
};

const McpServerConfig kConfig = {
    .name = "fuzz", .connect_timeout_ms = 50, .call_timeout_ms = 50};

TEST(McpClientFuzzTest, EveryCallEndsWhateverTheServerSays) {
  int good_lists = 0;
  int good_calls = 0;
  constexpr unsigned kRounds = 1500;
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    auto owned = std::make_unique<GarblingTransport>(seed);
    GarblingTransport& transport = *owned;
    ASSERT_OK_AND_ASSIGN(
        auto client,
        McpClient::ConnectOver(
            std::move(owned), kConfig,
            {.max_pages = 3,
             .log = [](const std::string&, const std::string&) {}}));
    transport.set_garble(true);
    std::vector<std::string> skipped;
    good_lists += client->ListTools(&skipped).ok() ? 1 : 0;
    for (int call = 0; call < 3; ++call) {
      const auto result = client->CallTool(
          "a", Json::object(),
          {.on_progress = [](double, double, const std::string&) {}});
      good_calls += result.ok() ? 1 : 0;
      if (!result.ok()) {
        ASSERT_NE(result.status().message().find("'fuzz'"), std::string::npos);
      }
    }
  }
  // Neither all spoiled nor all spared: the test reaches both sides.
  EXPECT_GT(good_lists, 100);
  EXPECT_LT(good_lists, static_cast<int>(kRounds));
  EXPECT_GT(good_calls, 300);
  EXPECT_LT(good_calls, static_cast<int>(3 * kRounds));
}

TEST(McpClientFuzzTest, EveryHandshakeEndsWhateverTheServerSays) {
  int connected = 0;
  constexpr unsigned kRounds = 1500;
  for (unsigned seed = 0; seed < kRounds; ++seed) {
    auto transport = std::make_unique<GarblingTransport>(seed);
    transport->set_garble(true);
    const auto client = McpClient::ConnectOver(std::move(transport), kConfig);
    connected += client.ok() ? 1 : 0;
  }
  EXPECT_GT(connected, 100);
  EXPECT_LT(connected, static_cast<int>(kRounds));
}

}  // namespace
}  // namespace nexus::mcp
