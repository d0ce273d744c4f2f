// SeveralTools: does a query want more than one tool?
//
// The query is cut into clauses (clauses.h); a clause wants the tool that lies
// nearest to it, if that is near enough and clearly ahead of every other that
// isn't its twin. When two clauses want different tools, choosing one tool for
// the whole query would be wrong, whichever it is.
//
// The limits were chosen with the encoder that comes with nexus, on the
// calibration side of eight published sets: docs/routing.md. Without clauses of
// some length nothing more is embedded.
#ifndef NEXUS_ROUTE_SEVERAL_TOOLS_H_
#define NEXUS_ROUTE_SEVERAL_TOOLS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace nexus::route {

struct SeveralToolsOptions {
  float min_cosine = 0.50F;
  float min_lead = 0.03F;
  // A shorter clause is a part of an enumeration more often than a wish.
  size_t min_words = 4;
};

struct Wish {
  size_t clause = 0;
  int tool = -1;
  float cosine = 0;
};

// Which clauses may be wishes at all: the places in `clauses` to embed. Fewer
// than two: the query has one wish.
std::vector<size_t> PossibleWishes(std::span<const std::string> clauses,
                                   const SeveralToolsOptions& options = {});

// The wish of one clause; tool -1: it wants none clearly. `dense`: cosines of
// the clause, one a tool.
Wish WishOf(size_t clause, std::span<const float> dense,
            std::span<const int> scope, std::span<const int> twin_class,
            const SeveralToolsOptions& options = {});

// The first wish for each tool, in the query's order; twins are one tool. Empty
// when fewer than two tools are wanted.
std::vector<Wish> SeveralWishes(std::span<const Wish> wishes,
                                std::span<const int> twin_class);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_SEVERAL_TOOLS_H_
