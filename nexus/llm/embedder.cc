#include "nexus/llm/embedder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nexus/llm/encoder_context.h"

namespace nexus::llm {
namespace {

class GgufEmbedder final : public Embedder {
 public:
  static Result<std::unique_ptr<Embedder>> Load(const EncoderOptions& options);

  int dimension() const override { return encoder_->dimension(); }
  std::string fingerprint() const override { return fingerprint_; }
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, TextRole role) override;

 private:
  Result<EncoderContext::Tokens> TokensOf(const std::string& text) const;

  std::unique_ptr<EncoderContext> encoder_;
  std::string query_prefix_;
  std::string document_prefix_;
  std::string fingerprint_;
};

Result<std::unique_ptr<Embedder>> GgufEmbedder::Load(
    const EncoderOptions& options) {
  auto embedder = std::make_unique<GgufEmbedder>();
  NEXUS_ASSIGN_OR_RETURN(embedder->encoder_,
                         EncoderContext::Load(options.path, options.threads));
  const EncoderContext& encoder = *embedder->encoder_;
  const ModelInfo& info = encoder.info();
  if (encoder.pooling() == EncoderContext::Pooling::kScore) {
    return InvalidArgumentError(
        info.path +
        ": a re-ranker, which gives scores of pairs and no vectors; give it "
        "as --reranker");
  }
  if (encoder.pooling() != EncoderContext::Pooling::kVector) {
    return InvalidArgumentError(
        info.path + ": its metadata names no pooling (pooling_type " +
        std::to_string(encoder.pooling_number()) +
        "), so it gives no vector for a text; convert it again with one");
  }
  const bool nomic = info.architecture.starts_with("nomic");
  embedder->query_prefix_ = options.query_prefix.empty() && nomic
                                ? "search_query: "
                                : options.query_prefix;
  embedder->document_prefix_ = options.document_prefix.empty() && nomic
                                   ? "search_document: "
                                   : options.document_prefix;
  NEXUS_ASSIGN_OR_RETURN(const Sha256Digest digest, Sha256OfFile(options.path));
  embedder->fingerprint_ = ToHex(digest) + ";" + EngineVersion() + ";pooling " +
                           std::to_string(encoder.pooling_number()) +
                           ";tokens " + std::to_string(encoder.max_tokens()) +
                           ";query '" + embedder->query_prefix_ +
                           "';document '" + embedder->document_prefix_ + "'";
  return std::unique_ptr<Embedder>(std::move(embedder));
}

Result<EncoderContext::Tokens> GgufEmbedder::TokensOf(
    const std::string& text) const {
  const std::optional<Token> first = encoder_->first_marker();
  const std::optional<Token> last = encoder_->last_marker();
  const size_t markers = (first ? 1U : 0U) + (last ? 1U : 0U);
  NEXUS_ASSIGN_OR_RETURN(
      EncoderContext::Tokens tokens,
      encoder_->Tokenize(text, encoder_->max_tokens() - markers));
  if (first) tokens.insert(tokens.begin(), *first);
  if (last) tokens.push_back(*last);
  if (tokens.empty()) {
    return InvalidArgumentError(
        "the text has no tokens, and the encoder adds none of its own");
  }
  return tokens;
}

Result<std::vector<std::vector<float>>> GgufEmbedder::Embed(
    std::span<const std::string> texts, TextRole role) {
  const std::string& prefix =
      role == TextRole::kQuery ? query_prefix_ : document_prefix_;
  std::vector<EncoderContext::Tokens> inputs;
  inputs.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    auto tokens = TokensOf(prefix + texts[i]);
    if (!tokens.ok()) {
      return tokens.status().WithContext("text " + std::to_string(i));
    }
    inputs.push_back(*std::move(tokens));
  }
  std::vector<std::vector<float>> vectors(texts.size());
  NEXUS_RETURN_IF_ERROR(
      encoder_->Encode(inputs, [&](size_t number, const float* row) -> Status {
        double squares = 0.0;
        for (int i = 0; i < dimension(); ++i) {
          squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
        }
        if (!std::isfinite(squares) || squares == 0.0) {
          return InternalError(
              encoder_->info().path +
              ": the encoder gave a vector without direction (not a number or "
              "zero); the file is damaged, fetch it again");
        }
        const auto scale = static_cast<float>(1.0 / std::sqrt(squares));
        vectors[number].assign(row, row + dimension());
        for (float& value : vectors[number]) value *= scale;
        return Status::Ok();
      }));
  return vectors;
}

}  // namespace

Result<std::unique_ptr<Embedder>> LoadEncoder(const EncoderOptions& options) {
  return GgufEmbedder::Load(options);
}

}  // namespace nexus::llm
