// Prose for benchmark histories. Not one of the compile contexts' texts: a
// block must not be measured behind what it was compiled behind.
#ifndef NEXUS_ENGINE_BENCH_TEXT_H_
#define NEXUS_ENGINE_BENCH_TEXT_H_

#include <string>

namespace nexus::engine {

// Paragraphs, repeated with their number in front, at least `min_words` long.
std::string BenchProse(int min_words);
// A question of at least `min_words` words that could go to any tool.
std::string BenchQuestion(int min_words);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_BENCH_TEXT_H_
