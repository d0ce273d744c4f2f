// Fusion: one order out of the dense ranking, the BM25 ranking and exact names.
//
// Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): a tool's score
// is the sum over rankings of 1 / (60 + rank). It needs no common scale for
// cosine and BM25. Exact names come before everything: a user who writes a
// tool's name means that tool, and an embedding can't tell `delete_file` from
// `delete_files`.
#ifndef NEXUS_ROUTE_FUSION_H_
#define NEXUS_ROUTE_FUSION_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nexus/schema/tool_schema.h"

namespace nexus::route {

struct Candidate {
  int tool = -1;    // index into ToolIndex::tools()
  float score = 0;  // fused; after a re-ranker, its score
  float dense = 0;  // cosine; 0 without an encoder
  float bm25 = 0;
  int dense_rank = 0;  // 1 is best; 0: not ranked
  int bm25_rank = 0;
  bool exact_name = false;
};

// A tool's name found in a query.
struct NameMention {
  size_t offset_bytes = 0;
  // Tools of that name: more than one when servers share it, and the query
  // doesn't say which server.
  std::vector<int> tools;
  // A name that is a plain word ("search") and isn't marked as a name: it may
  // be just English. Such a tool is always among the candidates but isn't put
  // first.
  bool plain_word = false;
};

// Finds tool names in queries. Thread-safe after construction.
//
// A name counts when it stands as a whole word, as it is or in other case, and
// looks like an identifier (snake_case, camelCase, kebab-case, dots, digits,
// several words, letters outside ASCII), or is marked as a name: in
// `back-ticks` or quotes, as server/name, before or after "tool" or "function",
// after "call", or alone.
class NameIndex {
 public:
  explicit NameIndex(std::span<const schema::ToolSchema> tools);

  // In order of appearance, each name once.
  std::vector<NameMention> Find(std::string_view query) const;

 private:
  struct Entry {
    std::string name;
    std::vector<int> tools;
    bool identifier = false;
  };

  void Add(const std::string& name, int tool);
  const Entry* Lookup(std::string_view name) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
  // Lower-case name -> first entry; for names that aren't written in their own
  // case.
  std::unordered_map<std::string, size_t> by_folded_name_;
  // Names with spaces or letters outside ASCII don't follow word borders: they
  // are searched for one by one.
  std::vector<size_t> phrases_;
};

inline constexpr int kReciprocalRankOffset = 60;
// Ranks below this add nothing: a tool that is 500th in both rankings is noise.
inline constexpr int kFusionDepth = 100;

struct FusionInput {
  // One score a tool; either may be empty (no encoder, empty query).
  std::span<const float> dense;
  std::span<const float> bm25;
  // Tools that take part, in ascending order.
  std::span<const int> scope;
  std::span<const NameMention> mentions;
};

// Best first; equal scores by dense score, then by tool. At most `top_k`, but
// never fewer than the mentioned tools.
std::vector<Candidate> Fuse(const FusionInput& input, int top_k);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_FUSION_H_
