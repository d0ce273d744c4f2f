#include "nexus/net/origin_rules.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::net {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Key;
using testing::Not;
using testing::Pair;

constexpr char kApp[] = "https://app.example";

TEST(OriginRulesTest, ARequestWithoutAnOriginIsNotOfAPage) {
  EXPECT_TRUE(OriginRules({}).Admits("", "nexus.example"));
}

TEST(OriginRulesTest, OnlyPagesOnLoopbackAreAdmittedByDefault) {
  const OriginRules rules({});
  for (const char* origin : {"http://localhost:8080", "http://127.0.0.1",
                             "http://[::1]:8080", "https://localhost"}) {
    EXPECT_TRUE(rules.Admits(origin, "127.0.0.1:8080")) << origin;
  }
  for (const char* origin :
       {"https://evil.example", "null", "http://127.evil.example", "*",
        "http://localhost.evil.example", "file://", "http://nexus.example"}) {
    EXPECT_FALSE(rules.Admits(origin, "nexus.example")) << origin;
  }
}

TEST(OriginRulesTest, WithAKeyAPageOfTheHostItselfIsAdmitted) {
  const OriginRules rules({.own_host = true});
  const auto admits = [&](const char* origin, const char* host) {
    return rules.Admits(origin, host);
  };
  EXPECT_TRUE(admits("http://192.168.1.7:8080", "192.168.1.7:8080"));
  EXPECT_TRUE(admits("http://box.lan", "box.lan"));
  EXPECT_TRUE(admits("http://box.lan", "Box.lan:80"));
  // Behind a proxy that ends TLS and passes the host on.
  EXPECT_TRUE(admits("https://nexus.example", "nexus.example"));
  EXPECT_TRUE(admits("https://nexus.example:8443", "nexus.example:8443"));
  EXPECT_TRUE(admits("http://[fd00::1]:8080", "[fd00::1]:8080"));

  EXPECT_FALSE(admits("http://192.168.1.7:9090", "192.168.1.7:8080"));
  EXPECT_FALSE(admits("https://evil.example", "nexus.example"));
  EXPECT_FALSE(admits("https://nexus.example.evil.example", "nexus.example"));
  EXPECT_FALSE(admits("https://nexus.example", ""));
  EXPECT_FALSE(admits("https://nexus.example", "nexus.example@evil.example"));
  EXPECT_FALSE(admits("null", "null"));
}

TEST(OriginRulesTest, ListedOriginsAreAdmittedExactly) {
  const OriginRules rules({.allowed = {kApp, "app://obsidian.md"}});
  EXPECT_TRUE(rules.Admits(kApp, "127.0.0.1:8080"));
  EXPECT_TRUE(rules.Admits("app://obsidian.md", "127.0.0.1:8080"));
  for (const char* origin :
       {"http://app.example", "https://app.example:444", "https://app.example/",
        "https://sub.app.example", "https://app.example.evil.example"}) {
    EXPECT_FALSE(rules.Admits(origin, "127.0.0.1:8080")) << origin;
  }
}

TEST(OriginRulesTest, OnlyListedOriginsMayReadAnswers) {
  const OriginRules rules({.allowed = {kApp}, .own_host = true});
  EXPECT_THAT(rules.AnswerHeaders(kApp),
              Contains(Pair("Access-Control-Allow-Origin", kApp)));
  EXPECT_THAT(rules.AnswerHeaders(kApp), Contains(Pair("Vary", "Origin")));
  for (const char* origin : {"", "https://evil.example", "http://localhost"}) {
    const HttpHeaders headers = rules.AnswerHeaders(origin);
    EXPECT_THAT(headers, Not(Contains(Key("Access-Control-Allow-Origin"))));
    EXPECT_THAT(headers, Contains(Pair("Vary", "Origin")));
    EXPECT_THAT(rules.PreflightHeaders(origin, "authorization"), IsEmpty());
  }
  EXPECT_THAT(OriginRules({}).AnswerHeaders(kApp), IsEmpty());
}

TEST(OriginRulesTest, APreflightMayAskForAnyHeaderButNoOtherText) {
  const OriginRules rules({.allowed = {kApp}});
  EXPECT_THAT(rules.PreflightHeaders(kApp, "authorization, x-stainless-os"),
              Contains(Pair("Access-Control-Allow-Headers",
                            "authorization, x-stainless-os")));
  EXPECT_THAT(rules.PreflightHeaders(kApp, "a\r\nSet-Cookie: b"),
              Not(Contains(Key("Access-Control-Allow-Headers"))));
}

TEST(OriginRulesTest, WhatNoBrowserSendsIsNoOrigin) {
  for (const char* origin :
       {"https://app.example", "http://localhost:5173", "http://[::1]:3000",
        "chrome-extension://abcdef", "tauri://localhost"}) {
    EXPECT_OK(CheckOrigin(origin));
  }
  for (const char* origin :
       {"", "*", "null", "app.example", "https://", "https://app.example/",
        "https://App.example", "https://*.example", "https://app.example:443",
        "http://app.example:80", "https://app.example:x", "http://a b",
        "https://user@app.example", "://app.example"}) {
    EXPECT_EQ(CheckOrigin(origin).code(), StatusCode::kInvalidArgument)
        << origin;
  }
}

TEST(OriginRulesTest, LoopbackIsAnAddressAndNoNameThatLooksLikeOne) {
  for (const char* host : {"localhost", "::1", "127.0.0.1", "127.1.2.3"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"", "127.", "127.evil.example", "127.0.0.1.evil.example", "128.0.0.1",
        "0.0.0.0", "::", "localhost.evil.example"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace nexus::net
