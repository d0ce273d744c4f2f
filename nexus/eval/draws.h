// Draws: seeded random numbers that are the same on every machine, and a
// shuffle made of them. Standard distributions differ between libraries.
#ifndef NEXUS_EVAL_DRAWS_H_
#define NEXUS_EVAL_DRAWS_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace nexus::eval {

class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  // splitmix64, Steele, Lea and Flood 2014.
  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  // Below `count`, which is far below 2^32: the bias of the remainder is nil.
  size_t Below(size_t count) { return (Next() >> 32) % count; }

 private:
  uint64_t state_;
};

// 0 to count - 1 in a random order.
inline std::vector<int> Shuffled(size_t count, uint64_t seed) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  Draws draws(seed);
  for (size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[draws.Below(i)]);
  }
  return order;
}

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_DRAWS_H_
