// An HttpFront on a port, before two fake servers, and a client of it.
#ifndef NEXUS_GATEWAY_TESTING_HTTP_FRONT_FIXTURE_H_
#define NEXUS_GATEWAY_TESTING_HTTP_FRONT_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/gateway/http_front.h"
#include "nexus/gateway/testing/fake_servers.h"
#include "nexus/net/http_client.h"
#include "nexus/net/sse.h"

namespace nexus::gateway {

class HttpFrontFixture : public testing::Test {
 protected:
  void SetUp() override { Start({}, ""); }
  void Start(HttpFrontOptions options, const std::string& key) {
    Stop();
    GatewayOptions gateway_options =
        FakeOptions({FakeServer("a", "normal"), FakeServer("notes", "rich")});
    gateway_options.expose = Expose::kAll;
    gateway_ = MakeGateway(std::move(gateway_options));
    options.version = "1";
    front_ = std::make_unique<HttpFront>(gateway_.get(), options);
    net::HttpServerOptions server_options;
    server_options.bearer_token = key;
    server_options.error_body = HttpFront::ErrorBody;
    auto server = net::HttpServer::Start(
        server_options, [this](const net::ServerRequest& request) {
          return front_->Handle(request);
        });
    ASSERT_OK(server);
    server_ = std::move(server).value();
    auto client = net::HttpClient::Create(server_->Url(kHttpPath));
    ASSERT_OK(client);
    client_ = std::move(client).value();
  }
  void TearDown() override { Stop(); }
  void Stop() {
    if (front_) front_->SetDraining();
    if (server_) server_->Stop(5000);
    server_ = nullptr;
    front_ = nullptr;
    gateway_ = nullptr;
  }

  net::HttpResponse Send(net::HttpRequest request) {
    auto response = client_->Send(request);
    EXPECT_OK(response);
    return response.ok() ? std::move(response).value() : net::HttpResponse();
  }
  net::HttpResponse Post(const Json& message, const std::string& session = "",
                         net::HttpHeaders headers = {}) {
    headers.emplace("Accept", "application/json, text/event-stream");
    if (!session.empty()) headers["Mcp-Session-Id"] = session;
    return Send({.method = net::HttpRequest::Method::kPost,
                 .headers = std::move(headers),
                 .body = DumpJson(message)});
  }
  static Json Request(const Json& id, const std::string& method,
                      const Json& params = Json::object()) {
    return {
        {"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}};
  }
  std::string Initialize() {
    const net::HttpResponse answer =
        Post(Request(0, "initialize", {{"protocolVersion", "2025-11-25"}}));
    EXPECT_EQ(answer.status, 200);
    const auto id = answer.headers.find("Mcp-Session-Id");
    EXPECT_NE(id, answer.headers.end());
    const std::string session = id->second;
    EXPECT_EQ(
        Post({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}},
             session)
            .status,
        202);
    return session;
  }
  // The messages of an event stream.
  static std::vector<Json> Events(const std::string& body) {
    std::vector<Json> events;
    net::SseParser parser([&](const net::SseEvent& event) {
      events.push_back(Json::parse(event.data));
      return true;
    });
    EXPECT_OK(parser.Feed(body));
    return events;
  }
  static Json CallOf(const std::string& tool,
                     const Json& arguments = Json::object()) {
    return {{"name", tool}, {"arguments", arguments}};
  }

  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<HttpFront> front_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_TESTING_HTTP_FRONT_FIXTURE_H_
