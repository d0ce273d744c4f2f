// Fuzz target: a grammar, and a schema's pattern turned into one. The first
// line is the grammar's text or pattern; what follows is matched against it.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nexus/base/check.h"
#include "nexus/llm/gbnf.h"
#include "nexus/llm/grammar_matcher.h"
#include "nexus/llm/pattern.h"

namespace {

void Match(const std::string& grammar, std::string_view text) {
  auto program = nexus::llm::ParseGbnf(grammar);
  if (!program.ok()) return;
  nexus::llm::GrammarMatcher matcher(*std::move(program));
  auto state = matcher.start();
  for (const char c : text.substr(0, 256)) {
    if (state == nexus::llm::GrammarMatcher::kDead) return;
    // The promise that keeps a call from being truncated: whoever follows the
    // grammar can still end.
    (void)matcher.BytesToEnd(state);
    NEXUS_CHECK(!matcher.Accepts(state) || matcher.BytesToEnd(state) == 0);
    state = matcher.Step(state, static_cast<uint8_t>(c));
    if (matcher.state_count() > 2000) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Longer ones only take longer.
  const std::string_view input(reinterpret_cast<const char*>(data),
                               size < 2048 ? size : 2048);
  const size_t cut = input.find("\n---\n");
  const std::string first(input.substr(0, cut));
  const std::string_view rest =
      cut == std::string_view::npos ? input : input.substr(cut + 5);
  Match(first, rest);
  const auto pattern = nexus::llm::ToGrammarPattern(first);
  if (pattern.ok()) {
    // What a pattern becomes must be a grammar, or say why not by itself.
    Match("root ::= " + *pattern + "\n", rest);
  }
  return 0;
}
