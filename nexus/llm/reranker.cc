#include "nexus/llm/reranker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nexus/llm/encoder_context.h"

namespace nexus::llm {
namespace {

class GgufReranker final : public Reranker {
 public:
  static Result<std::unique_ptr<Reranker>> Load(const RerankerOptions& options);

  Result<std::vector<float>> Score(
      std::string_view query, std::span<const std::string> documents) override;
  std::string name() const override { return encoder_->info().name; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  std::unique_ptr<EncoderContext> encoder_;
  size_t query_tokens_ = 0;
  size_t pair_tokens_ = 0;
  std::string fingerprint_;
};

Result<std::unique_ptr<Reranker>> GgufReranker::Load(
    const RerankerOptions& options) {
  auto reranker = std::make_unique<GgufReranker>();
  NEXUS_ASSIGN_OR_RETURN(reranker->encoder_,
                         EncoderContext::Load(options.path, options.threads));
  const EncoderContext& encoder = *reranker->encoder_;
  if (encoder.pooling() != EncoderContext::Pooling::kScore) {
    return InvalidArgumentError(
        encoder.info().path + ": no ranking head of one output (pooling_type " +
        std::to_string(encoder.pooling_number()) +
        "), so it scores no pairs; a re-ranker is a cross-encoder that was "
        "converted with pooling type RANK");
  }
  if (!encoder.first_marker() || !encoder.last_marker()) {
    return InvalidArgumentError(
        encoder.info().path +
        ": its vocabulary sets no [CLS] and [SEP], which part a pair");
  }
  // Room for the three markers and a token of each side.
  const int most = static_cast<int>(encoder.max_tokens());
  if (most < 5) {
    return InvalidArgumentError(encoder.info().path + ": a context of " +
                                std::to_string(most) +
                                " tokens holds no pair of texts");
  }
  const int pair = std::clamp(options.pair_tokens, 5, most);
  reranker->pair_tokens_ = static_cast<size_t>(pair);
  reranker->query_tokens_ =
      static_cast<size_t>(std::clamp(options.query_tokens, 1, pair - 4));
  NEXUS_ASSIGN_OR_RETURN(const Sha256Digest digest, Sha256OfFile(options.path));
  reranker->fingerprint_ = ToHex(digest) + ";" + EngineVersion() + ";query " +
                           std::to_string(reranker->query_tokens_) + ";pair " +
                           std::to_string(reranker->pair_tokens_);
  return std::unique_ptr<Reranker>(std::move(reranker));
}

Result<std::vector<float>> GgufReranker::Score(
    std::string_view query, std::span<const std::string> documents) {
  NEXUS_ASSIGN_OR_RETURN(EncoderContext::Tokens head,
                         encoder_->Tokenize(query, query_tokens_));
  head.insert(head.begin(), *encoder_->first_marker());
  head.push_back(*encoder_->last_marker());
  std::vector<EncoderContext::Tokens> pairs;
  pairs.reserve(documents.size());
  for (const std::string& document : documents) {
    NEXUS_ASSIGN_OR_RETURN(
        const EncoderContext::Tokens body,
        encoder_->Tokenize(document, pair_tokens_ - head.size() - 1));
    EncoderContext::Tokens& pair = pairs.emplace_back(head);
    pair.insert(pair.end(), body.begin(), body.end());
    pair.push_back(*encoder_->last_marker());
  }
  std::vector<float> scores(documents.size());
  NEXUS_RETURN_IF_ERROR(
      encoder_->Encode(pairs, [&](size_t number, const float* row) -> Status {
        if (!std::isfinite(*row)) {
          return InternalError(encoder_->info().path +
                               ": a score that is no number; the file is "
                               "damaged, fetch it again");
        }
        scores[number] = *row;
        return Status::Ok();
      }));
  return scores;
}

}  // namespace

Result<std::unique_ptr<Reranker>> LoadReranker(const RerankerOptions& options) {
  return GgufReranker::Load(options);
}

}  // namespace nexus::llm
