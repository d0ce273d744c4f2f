#include "nexus/route/tool_index.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace nexus::route {
namespace {

// Changes when the text that is embedded for a tool does; part of the cache's
// fingerprint beside the encoder's own.
constexpr char kTextRecipe[] = "search-text-1";

// Embedding is tens of milliseconds a text: what is lost when a first start
// over thousands of tools is stopped stays below half a minute or so.
constexpr size_t kSaveEveryTexts = 512;

std::string CacheFingerprint(const llm::Embedder& embedder) {
  return embedder.fingerprint() + "|" + kTextRecipe;
}

std::vector<std::string> SearchTexts(
    std::span<const schema::ToolSchema> tools) {
  std::vector<std::string> texts;
  texts.reserve(tools.size());
  for (const schema::ToolSchema& tool : tools) {
    texts.push_back(schema::SearchText(tool));
  }
  return texts;
}

// What BM25 reads: the server's name too. "Search" of server "deezer" is found
// by a user who says Deezer; where all tools are of one server its words are in
// every text and count nothing. Encoders are trained without it.
std::vector<std::string> LexicalTexts(std::span<const schema::ToolSchema> tools,
                                      std::vector<std::string> texts) {
  for (size_t i = 0; i < tools.size(); ++i) {
    if (!tools[i].server.empty()) texts[i] += " " + tools[i].server;
  }
  return texts;
}

struct DigestHash {
  size_t operator()(const Sha256Digest& digest) const {
    return static_cast<size_t>(Xxh3(digest.data(), digest.size()));
  }
};

using RowOfKey = std::unordered_map<Sha256Digest, int, DigestHash>;

RowOfKey RowsByKey(const Slb& slb) {
  RowOfKey rows;
  rows.reserve(static_cast<size_t>(slb.row_count()));
  for (int r = 0; r < slb.row_count(); ++r) rows[slb.key(r)] = r;
  return rows;
}

struct EmbeddedBatch {
  std::vector<std::vector<float>> vectors;  // empty where there is a problem
  std::vector<Status> problems;
};

// A vector that isn't finite, or a text without tokens; anything else (memory,
// files, an interrupt) would meet the next text too.
bool IsAboutOneText(const Status& problem) {
  return problem.ok() || problem.code() == StatusCode::kInternal ||
         problem.code() == StatusCode::kInvalidArgument;
}

// An encoder refuses a whole batch for one of its texts, and doesn't say which:
// they are asked for one by one then.
Result<EmbeddedBatch> EmbedBatch(llm::Embedder& embedder,
                                 std::span<const std::string> texts) {
  EmbeddedBatch batch;
  batch.problems.resize(texts.size());
  auto together = embedder.Embed(texts, llm::TextRole::kDocument);
  if (together.ok()) {
    if (together->size() != texts.size()) {
      return InternalError("the encoder gave " +
                           std::to_string(together->size()) + " vectors for " +
                           std::to_string(texts.size()) + " texts");
    }
    batch.vectors = std::move(together).value();
    return batch;
  }
  batch.vectors.resize(texts.size());
  if (texts.size() == 1 || !IsAboutOneText(together.status())) {
    batch.problems.front() = together.status();
    return batch;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    auto alone = embedder.Embed(texts.subspan(i, 1), llm::TextRole::kDocument);
    if (!alone.ok()) {
      batch.problems[i] = alone.status();
      // The rest would fail alike.
      if (!IsAboutOneText(alone.status())) break;
    } else if (alone->size() == 1) {
      batch.vectors[i] = std::move(alone->front());
    }
  }
  return batch;
}

}  // namespace

ToolIndex::ToolIndex(std::vector<schema::ToolSchema> tools,
                     std::vector<std::string> search_texts)
    : tools_(std::move(tools)),
      search_texts_(std::move(search_texts)),
      bm25_(LexicalTexts(tools_, search_texts_)),
      names_(tools_) {
  // Equal canonical texts have equal names and descriptions, so equal twin
  // keys.
  std::unordered_map<std::string, int> classes;
  twin_class_.reserve(tools_.size());
  for (const schema::ToolSchema& tool : tools_) {
    twin_class_.push_back(classes
                              .try_emplace(schema::TwinKey(tool),
                                           static_cast<int>(classes.size()))
                              .first->second);
  }
}

Result<std::shared_ptr<const ToolIndex>> ToolIndex::Build(
    std::vector<schema::ToolSchema> tools, llm::Embedder* embedder,
    const ToolIndexOptions& options) {
  std::vector<std::string> texts = SearchTexts(tools);
  std::shared_ptr<ToolIndex> index(
      new ToolIndex(std::move(tools), std::move(texts)));
  if (embedder != nullptr) {
    NEXUS_RETURN_IF_ERROR(index->EmbedTools(*embedder, options));
  }
  return std::shared_ptr<const ToolIndex>(std::move(index));
}

Status ToolIndex::EmbedTools(llm::Embedder& embedder,
                             const ToolIndexOptions& options) {
  if (embedder.dimension() <= 0) {
    return InternalError("the encoder says that its vectors have " +
                         std::to_string(embedder.dimension()) + " numbers");
  }
  FileSystem& fs = options.file_system != nullptr ? *options.file_system
                                                  : FileSystem::Default();
  encoder_fingerprint_ = embedder.fingerprint();
  const std::string fingerprint = CacheFingerprint(embedder);

  Slb known(embedder.dimension());
  if (!options.cache_path.empty()) {
    Result<Slb> cached = Slb::Load(fs, options.cache_path, fingerprint);
    if (cached.ok() && cached->dimension() == embedder.dimension()) {
      known = std::move(cached).value();
    } else if (!cached.ok() &&
               cached.status().code() != StatusCode::kNotFound) {
      warnings_.push_back("embeddings are made anew: " +
                          cached.status().message());
    }
  }
  RowOfKey known_rows = RowsByKey(known);

  std::vector<Sha256Digest> keys;
  keys.reserve(search_texts_.size());
  // The first tool of each text that isn't known: equal texts are embedded
  // once.
  std::vector<size_t> missing;
  std::unordered_set<Sha256Digest, DigestHash> queued;
  for (size_t i = 0; i < search_texts_.size(); ++i) {
    keys.push_back(Sha256Of(search_texts_[i]));
    if (known_rows.contains(keys[i])) {
      ++cached_count_;
    } else if (queued.insert(keys[i]).second) {
      missing.push_back(i);
    }
  }

  size_t saved_at = 0;
  bool any_usable = cached_count_ > 0;
  const size_t batch_size =
      static_cast<size_t>(std::max(options.batch_texts, 1));
  for (size_t begin = 0; begin < missing.size(); begin += batch_size) {
    const size_t end = std::min(missing.size(), begin + batch_size);
    std::vector<std::string> batch;
    for (size_t m = begin; m < end; ++m) {
      batch.push_back(search_texts_[missing[m]]);
    }
    Result<EmbeddedBatch> done = EmbedBatch(embedder, batch);
    if (!done.ok()) {
      SaveCache(fs, known, fingerprint, options);
      return done.status();
    }
    Status none;
    for (size_t m = begin; m < end; ++m) {
      const std::string id = schema::ToolId(tools_[missing[m]]);
      const Status& problem = done->problems[m - begin];
      known_rows[keys[missing[m]]] = known.row_count();
      if (known.Append(keys[missing[m]], done->vectors[m - begin])) {
        any_usable = true;
        continue;
      }
      if (none.ok()) none = problem.WithContext("embedding tool '" + id + "'");
      if (IsAboutOneText(problem)) {
        warnings_.push_back(
            "tool '" + id +
            "': the encoder gave no usable vector; it is found by words only" +
            (problem.ok() ? "" : " (" + problem.message() + ")"));
        continue;
      }
      SaveCache(fs, known, fingerprint, options);
      return problem.WithContext("embedding tool '" + id + "'");
    }
    // One tool may be without a vector; an encoder that gives none at all is
    // broken, and that must not pass for a choice of words.
    if (!any_usable && !none.ok()) return none;
    embedded_count_ += static_cast<int>(end - begin);
    if (end - saved_at >= kSaveEveryTexts && end < missing.size()) {
      SaveCache(fs, known, fingerprint, options);
      saved_at = end;
    }
    if (options.progress) {
      options.progress(static_cast<int>(end), static_cast<int>(missing.size()));
    }
    if (options.cancel != nullptr && options.cancel->load()) {
      SaveCache(fs, known, fingerprint, options);
      return CancelledError("interrupted after embedding " +
                            std::to_string(end) + " of " +
                            std::to_string(missing.size()) + " tools");
    }
  }

  slb_ = std::make_unique<Slb>(embedder.dimension());
  slb_->Reserve(static_cast<int>(tools_.size()));
  for (const Sha256Digest& key : keys) {
    slb_->AppendRowOf(known, known_rows.at(key));
  }
  if (embedded_count_ > 0) SaveCache(fs, known, fingerprint, options);
  return Status::Ok();
}

void ToolIndex::SaveCache(FileSystem& fs, const Slb& known,
                          const std::string& fingerprint,
                          const ToolIndexOptions& options) {
  if (options.cache_path.empty()) return;
  const int limit = std::max(options.cache_row_limit, 0);
  Slb kept(known.dimension());
  for (int r = std::max(0, known.row_count() - limit); r < known.row_count();
       ++r) {
    if (known.usable(r)) kept.AppendRowOf(known, r);
  }
  const Status saved = kept.Save(fs, options.cache_path, fingerprint);
  if (!saved.ok()) {
    warnings_.push_back("embeddings can't be kept for the next start: " +
                        saved.message());
  }
}

}  // namespace nexus::route
