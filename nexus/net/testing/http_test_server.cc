#include "nexus/net/testing/http_test_server.h"

#include <atomic>
#include <thread>
#include <utility>

#include "httplib.h"

#include "nexus/base/check.h"

namespace nexus::net {

struct HttpTestServer::Impl {
  httplib::Server server;
  std::thread thread;
  int port = 0;
  std::atomic<bool> stopping{false};
};

namespace {

void Answer(TestResponse answer, const std::atomic<bool>& stopping,
            httplib::Response& out) {
  out.status = answer.status;
  for (const auto& [name, value] : answer.headers) out.set_header(name, value);
  if (answer.stream == nullptr) {
    if (!answer.body.empty()) out.set_content(answer.body, answer.content_type);
    return;
  }
  const std::string content_type = answer.content_type;
  out.set_chunked_content_provider(
      content_type,
      [answer = std::move(answer), &stopping](size_t, httplib::DataSink& sink) {
        answer.stream([&](std::string_view bytes) {
          return !stopping && sink.is_writable() &&
                 sink.write(bytes.data(), bytes.size());
        });
        if (answer.abort_after_stream) return false;
        sink.done();
        return true;
      });
}

}  // namespace

HttpTestServer::HttpTestServer(Handler handler)
    : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.server.new_task_queue = [] { return new httplib::ThreadPool(8); };
  const auto handle = [handler = std::move(handler), &impl](
                          const httplib::Request& in, httplib::Response& out) {
    TestRequest request{in.method, in.target, {}, in.body};
    for (const auto& [name, value] : in.headers) {
      request.headers.emplace(name, value);
    }
    Answer(handler(request), impl.stopping, out);
  };
  impl.server.Get(".*", handle);
  impl.server.Post(".*", handle);
  impl.server.Delete(".*", handle);
  impl.port = impl.server.bind_to_any_port("127.0.0.1");
  NEXUS_CHECK(impl.port > 0);
  impl.thread = std::thread([&impl] { impl.server.listen_after_bind(); });
  impl.server.wait_until_ready();
}

HttpTestServer::~HttpTestServer() {
  impl_->stopping = true;
  impl_->server.stop();
  impl_->thread.join();
}

int HttpTestServer::port() const { return impl_->port; }

std::string HttpTestServer::Url(std::string_view path) const {
  return "http://127.0.0.1:" + std::to_string(impl_->port) + std::string(path);
}

bool HttpTestServer::stopping() const { return impl_->stopping; }

}  // namespace nexus::net
