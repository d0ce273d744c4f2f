// The committed encoders against float32 vectors of the weights they were made
// from.
// Needs no download: models/ and tests/data/ are in the tree.
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/llm/embedder.h"
#include "nexus/route/router.h"

namespace nexus::route {
namespace {

struct Committed {
  const char* encoder;
  const char* reference;
};

class EncoderReferenceTest : public ::testing::TestWithParam<Committed> {};

INSTANTIATE_TEST_SUITE_P(
    Models, EncoderReferenceTest,
    ::testing::Values(
        Committed{NEXUS_SOURCE_DIR "/models/all-MiniLM-L6-v2-Q8_0.gguf",
                  NEXUS_SOURCE_DIR
                  "/tests/data/encoder/minilm_reference.jsonl"},
        Committed{NEXUS_SOURCE_DIR "/models/nexus-route-minilm-Q8_0.gguf",
                  NEXUS_SOURCE_DIR
                  "/tests/data/encoder/nexus_route_reference.jsonl"}),
    [](const auto& param) {
      return std::string(param.index == 0 ? "Untuned" : "Tuned");
    });

std::unique_ptr<llm::Embedder> Load() {
  llm::EncoderOptions options;
  options.path = EncoderReferenceTest::GetParam().encoder;
  auto encoder = llm::LoadEncoder(options);
  EXPECT_OK(encoder);
  return encoder.ok() ? std::move(encoder).value() : nullptr;
}

TEST_P(EncoderReferenceTest, AgreesWithTheOriginalWeights) {
  const auto encoder = Load();
  ASSERT_NE(encoder, nullptr);
  ASSERT_EQ(encoder->dimension(), 384);
  const char* reference = GetParam().reference;
  std::ifstream in(reference);
  ASSERT_TRUE(in) << reference;
  int texts = 0;
  for (std::string line; std::getline(in, line); ++texts) {
    ASSERT_OK_AND_ASSIGN(const Json row, ParseJson(line, reference));
    const std::string text = row["text"];
    const std::vector<float> expected = row["vector"];
    ASSERT_OK_AND_ASSIGN(const auto vectors,
                         encoder->Embed({&text, 1}, llm::TextRole::kDocument));
    ASSERT_EQ(vectors[0].size(), expected.size());
    double dot = 0;
    double norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      dot +=
          static_cast<double>(vectors[0][i]) * static_cast<double>(expected[i]);
      norm += static_cast<double>(vectors[0][i]) *
              static_cast<double>(vectors[0][i]);
    }
    EXPECT_NEAR(norm, 1.0, 1e-4) << text;
    EXPECT_GE(dot, 0.999) << text;
  }
  EXPECT_EQ(texts, 5);
}

TEST_P(EncoderReferenceTest, RoutesAParaphraseThatSharesNoWord) {
  const auto encoder = Load();
  ASSERT_NE(encoder, nullptr);
  std::vector<schema::ToolSchema> tools(3);
  tools[0].name = "get_weather";
  tools[0].description = "Returns the weather forecast for a city.";
  tools[1].name = "send_email";
  tools[1].description = "Sends an e-mail message to a recipient.";
  tools[2].name = "convert_currency";
  tools[2].description = "Converts an amount between two currencies.";
  ASSERT_OK_AND_ASSIGN(auto index, ToolIndex::Build(tools, encoder.get()));
  const Router router(index, encoder.get());
  ASSERT_OK_AND_ASSIGN(const auto decision,
                       router.Route("Will it rain in Paris tomorrow?"));
  EXPECT_EQ(decision.outcome, Outcome::kRoute) << decision.reason;
  EXPECT_EQ(decision.tool(decision.candidates[0]).name, "get_weather");
}

}  // namespace
}  // namespace nexus::route
