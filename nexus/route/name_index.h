// NameIndex: finds the names of tools in queries.
//
// A name counts when it stands as a whole word, in its own case or another, and
// either looks like an identifier (snake_case, kebab-case, camelCase, dots,
// digits, several words) or is marked as a name: in `back-ticks`, with its
// server (server/name, server.name, server:name, server__name,
// mcp__server__name), beside "tool" or "function", after "call", or as the
// whole query.
#ifndef NEXUS_ROUTE_NAME_INDEX_H_
#define NEXUS_ROUTE_NAME_INDEX_H_

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nexus/schema/tool_schema.h"

namespace nexus::route {

// A tool's name found in a query.
struct NameMention {
  size_t offset_bytes = 0;
  // Tools of that name: more than one when servers share it, and the query
  // doesn't say which server.
  std::vector<int> tools;
  // A plain word ("search") that isn't marked as a name, so it may be just
  // English. Such a tool is always among the candidates but isn't put first.
  bool plain_word = false;
};

// Thread-safe after construction. Find is linear in the query, whatever the
// number of tools.
class NameIndex {
 public:
  explicit NameIndex(std::span<const schema::ToolSchema> tools);

  // In order of appearance, each name once.
  std::vector<NameMention> Find(std::string_view query) const;

 private:
  struct Spelling {
    std::string name;  // in its own case
    int tool;
  };
  struct Entry {
    std::vector<Spelling> spellings;  // equal but for case
    bool identifier = false;
  };
  struct Match {
    const Entry* entry = nullptr;
    size_t begin = 0;
    size_t end = 0;
  };

  void Add(const std::string& name, int tool, bool identifier);
  Match FindPhrase(std::string_view folded, size_t begin,
                   const std::string& key) const;

  std::unordered_map<std::string, Entry> entries_;  // by folded name
  // Names with characters that a run (see the .cc) doesn't have, by their first
  // run or first character: longest first.
  std::unordered_map<std::string, std::vector<std::string>> phrases_;
};

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_NAME_INDEX_H_
