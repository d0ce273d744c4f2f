// Clauses: a request cut where it asks for one thing after another.
//
// "Convert 5 euros to dollars, then mail the sum to Ann" asks for two tools; a
// router that sees all of it finds one. Each clause is looked at by itself, to
// see that several tools are wanted (several_tools.h) and which of them is
// still missing (serve/tool_choice.h).
#ifndef NEXUS_ROUTE_CLAUSES_H_
#define NEXUS_ROUTE_CLAUSES_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nexus::route {

// Each clause costs one routing.
inline constexpr size_t kMaxClauses = 8;

// In order, never empty for a text with a word. Cut at the ends of sentences
// and lines, at semicolons and commas, and at English "and" and "then". What
// stands in quotes or back-ticks isn't cut; pieces of one or two words, as in
// enumerations, stay with what is before them. What is beyond the last clause
// belongs to it.
std::vector<std::string> Clauses(std::string_view text);

// Words with a letter or a digit, or any byte that isn't ASCII.
size_t WordCount(std::string_view text);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_CLAUSES_H_
