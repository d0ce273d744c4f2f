#include "nexus/engine/compose_arm.h"

#include <algorithm>
#include <charconv>

namespace nexus::engine {

Result<ComposeArm> ParseComposeArm(std::string_view text) {
  ComposeArm arm;
  arm.name = text;
  if (text == "exact") {
    arm.is_exact = true;
    return arm;
  }
  const auto bad = [&](std::string_view why) {
    return InvalidArgumentError(
        "arm '" + arm.name + "': " + std::string(why) +
        "; expected exact or RECIPE:PERCENT[+gold|+topK] with the recipes "
        "alone, generic, given");
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return bad("no ':'");
  const auto neighbours = ParseListNeighbours(text.substr(0, colon));
  if (!neighbours.has_value()) return bad("no such recipe");
  arm.neighbours = *neighbours;
  std::string_view rest = text.substr(colon + 1);
  const size_t plus = std::min(rest.find('+'), rest.size());
  const std::string_view percent_text = rest.substr(0, plus);
  int percent = -1;
  const auto [end, error] = std::from_chars(
      percent_text.data(), percent_text.data() + percent_text.size(), percent);
  if (error != std::errc() ||
      end != percent_text.data() + percent_text.size() || percent < 0 ||
      percent > 100) {
    return bad("the percentage isn't one from 0 to 100");
  }
  arm.share = percent / 100.0;
  if (plus == rest.size()) return arm;
  rest = rest.substr(plus + 1);
  if (rest == "gold") {
    arm.decode_gold = true;
    return arm;
  }
  if (!rest.starts_with("top")) return bad("no such addition");
  rest.remove_prefix(3);
  const auto [top_end, top_error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), arm.decode_top);
  if (top_error != std::errc() || top_end != rest.data() + rest.size() ||
      arm.decode_top < 1) {
    return bad("topK needs a number from 1 on");
  }
  return arm;
}

}  // namespace nexus::engine
