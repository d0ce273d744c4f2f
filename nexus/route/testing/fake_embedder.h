// FakeEmbedder: vectors from hashed words, so that texts sharing words are
// close, without weights. Can be told to fail.
#ifndef NEXUS_ROUTE_TESTING_FAKE_EMBEDDER_H_
#define NEXUS_ROUTE_TESTING_FAKE_EMBEDDER_H_

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/llm/embedder.h"
#include "nexus/route/bm25.h"

namespace nexus::route {

class FakeEmbedder : public llm::Embedder {
 public:
  explicit FakeEmbedder(std::string name = "fake", int dimension = 96)
      : name_(std::move(name)), dimension_(dimension) {}

  int dimension() const override { return dimension_; }
  std::string fingerprint() const override { return name_; }

  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole) override {
    if (!error.ok()) return error;
    for (const std::string& text : texts) {
      if (refuse && refuse(text)) return InternalError("not a number");
    }
    std::vector<std::vector<float>> vectors;
    for (const std::string& text : texts) {
      embedded.push_back(text);
      vectors.push_back(Vector(text));
      if (poison && poison(text)) {
        vectors.back()[1] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    return vectors;
  }

  Status error;                                         // returned when not ok
  std::function<bool(const std::string& text)> poison;  // gets a NaN
  // Fails the whole batch that such a text is in, as encoders in GGUF do.
  std::function<bool(const std::string& text)> refuse;
  std::vector<std::string> embedded;  // texts, in order

 private:
  std::vector<float> Vector(const std::string& text) const {
    std::vector<float> v(static_cast<size_t>(dimension_), 0.0F);
    v[0] = 0.05F;  // no text is the zero vector
    for (const std::string& word : SplitWords(text)) {
      v[Xxh3(word.data(), word.size()) % v.size()] += 1;
    }
    float norm = 0;
    for (const float x : v) norm += x * x;
    for (float& x : v) x /= std::sqrt(norm);
    return v;
  }

  std::string name_;
  int dimension_;
};

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_TESTING_FAKE_EMBEDDER_H_
