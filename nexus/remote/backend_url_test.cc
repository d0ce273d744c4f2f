#include "nexus/remote/backend_url.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::remote {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(BackendUrlTest, MeansV1WithoutAPath) {
  for (const char* text :
       {"http://127.0.0.1:8081", "http://127.0.0.1:8081/",
        "http://127.0.0.1:8081/v1", "http://127.0.0.1:8081/v1/",
        "HTTP://127.0.0.1:8081/v1/chat/completions"}) {
    ASSERT_OK_AND_ASSIGN(const BackendUrl url, ParseBackendUrl(text));
    EXPECT_EQ(url.name, "http://127.0.0.1:8081/v1") << text;
    EXPECT_EQ(url.chat_path, "/v1/chat/completions");
    EXPECT_EQ(url.models_path, "/v1/models");
  }
}

TEST(BackendUrlTest, KeepsAPathOfItsOwn) {
  ASSERT_OK_AND_ASSIGN(const BackendUrl url,
                       ParseBackendUrl("https://api.example/openai/v2/"));
  EXPECT_EQ(url.name, "https://api.example:443/openai/v2");
  EXPECT_EQ(url.chat_path, "/openai/v2/chat/completions");
  EXPECT_TRUE(url.is_https);
}

TEST(BackendUrlTest, KeepsBracketsAroundIpv6) {
  ASSERT_OK_AND_ASSIGN(const BackendUrl url, ParseBackendUrl("http://[::1]:9"));
  EXPECT_EQ(url.name, "http://[::1]:9/v1");
}

TEST(BackendUrlTest, RefusesAQueryWithoutRepeatingIt) {
  const auto url = ParseBackendUrl("http://host/v1?key=secret");
  ASSERT_FALSE(url.ok());
  EXPECT_THAT(url.status().message(), HasSubstr("query"));
  EXPECT_THAT(url.status().message(), Not(HasSubstr("secret")));
}

TEST(BackendUrlTest, TakesListsWithCommas) {
  const std::vector<std::string> texts = {"http://a:1,http://b:2",
                                          "http://c:3/"};
  ASSERT_OK_AND_ASSIGN(const auto urls, ParseBackendUrls(texts));
  ASSERT_EQ(urls.size(), 3U);
  EXPECT_EQ(urls[2].name, "http://c:3/v1");
}

TEST(BackendUrlTest, RefusesListsThatMakeNoPool) {
  using Texts = std::vector<std::string>;
  EXPECT_FALSE(ParseBackendUrls(Texts{}).ok());
  EXPECT_FALSE(ParseBackendUrls(Texts{",,"}).ok());
  EXPECT_FALSE(ParseBackendUrls(Texts{"http://a:1,nonsense"}).ok());
  const auto twice = ParseBackendUrls(Texts{"http://a:1,http://a:1/v1"});
  ASSERT_FALSE(twice.ok());
  EXPECT_THAT(twice.status().message(), HasSubstr("twice"));
  Texts many;
  for (size_t i = 0; i <= kMaxReplicas; ++i) {
    many.push_back("http://a:" + std::to_string(i + 1));
  }
  EXPECT_FALSE(ParseBackendUrls(many).ok());
}

}  // namespace
}  // namespace nexus::remote
