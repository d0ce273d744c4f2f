// Reranker: a second, slower look at the few candidates of a close call, for
// example by a cross-encoder that reads query and tool together. The Router
// works without one and says so.
#ifndef NEXUS_ROUTE_RERANKER_H_
#define NEXUS_ROUTE_RERANKER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::route {

// Thread-compatible: the Router calls it from one thread at a time.
class Reranker {
 public:
  virtual ~Reranker() = default;
  // One score a document, higher is better, on a scale of the model's own.
  virtual Result<std::vector<float>> Score(
      std::string_view query, std::span<const std::string> documents) = 0;
  // Names the model, for decisions and logs.
  virtual std::string name() const = 0;
};

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_RERANKER_H_
