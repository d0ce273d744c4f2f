// Drives a fuzz target where there is no libFuzzer: each seed as it is, and the
// same changes of it in every run. A crash names the seed and the round, and
// the same command runs into it again.
//
//   x_fuzz SEED...
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kRounds = 400;             // of each seed
constexpr size_t kMaxBytes = 64 * 1024;  // more is a waste of rounds

char current[512];

void SayWhere(int number) {
  // Only what a signal handler may call.
  const size_t length = std::char_traits<char>::length(current);
  if (write(STDERR_FILENO, current, length) < 0) std::_Exit(3);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

std::string ReadSeed(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "%s: can't be read\n", path);
    std::exit(2);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  void Begin(uint64_t seed) { random_.seed(seed); }

  std::string Change(std::string text) {
    for (uint64_t left = 1 + Below(4); left > 0; --left) ChangeOnce(&text);
    if (text.size() > kMaxBytes) text.resize(kMaxBytes);
    return text;
  }

 private:
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }

  // A part of `text`, at most 32 bytes of it.
  std::string Part(const std::string& text) {
    if (text.empty()) return {};
    return text.substr(Below(text.size()), 1 + Below(32));
  }

  void ChangeOnce(std::string* text) {
    // What parsers trip over more than over any byte.
    static const std::string kTokens[] = {std::string(1, '\0'),
                                          "\xff",
                                          "\xc3",
                                          "\xef\xbb\xbf",
                                          "\r\n",
                                          "\n\n",
                                          "\"",
                                          "\\",
                                          "\\u0000",
                                          "\\ud800",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "null",
                                          "-1",
                                          "1e400",
                                          "18446744073709551616",
                                          "0.1",
                                          "true",
                                          "{}",
                                          "[]",
                                          "\"\"",
                                          std::string(8, '\xff'),
                                          std::string(8, '\0')};
    const uint64_t at = Below(text->size() + 1);
    switch (Below(7)) {
      case 0:
        if (at < text->size()) {
          (*text)[at] = static_cast<char>((*text)[at] ^ (1 << Below(8)));
        }
        break;
      case 1:
        text->insert(at, 1, static_cast<char>(Below(256)));
        break;
      case 2:
        text->erase(at, 1 + Below(16));
        break;
      case 3:
        text->insert(at, Part(*text));
        break;
      case 4:
        text->insert(at, kTokens[Below(std::size(kTokens))]);
        break;
      case 5:
        text->insert(at, Part(seeds_[Below(seeds_.size())]));
        break;
      default:
        text->resize(at);
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_;
};

void Run(const char* name, int round, const std::string& text) {
  std::snprintf(current, sizeof(current), "\nwhile at seed %s, round %d\n",
                name, round);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()),
                         text.size());
}

}  // namespace

int main(int argc, char** argv) {
  for (const int number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) {
    std::signal(number, SayWhere);
  }
  std::vector<std::string> seeds;
  for (int i = 1; i < argc; ++i) seeds.push_back(ReadSeed(argv[i]));
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: %s SEED...\n", argv[0]);
    return 2;
  }
  Run("(nothing)", 0, "");
  Mutator mutator(seeds);
  for (size_t i = 0; i < seeds.size(); ++i) {
    const char* name = argv[i + 1];
    Run(name, 0, seeds[i]);
    for (int round = 1; round <= kRounds; ++round) {
      mutator.Begin(i * 1000003 + static_cast<uint64_t>(round));
      Run(name, round, mutator.Change(seeds[i]));
    }
  }
  std::printf("%zu seeds, %d changes of each\n", seeds.size(), kRounds);
  return 0;
}
