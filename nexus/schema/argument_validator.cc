// valijson throws, calls std::regex and can be led into exponential work; none
// of that passes this file. Schemas reach it lowered (schema_lowering.h),
// patterns run in the standard library's polynomial matcher, and every
// subschema visited counts against a budget.
#include "nexus/schema/argument_validator.h"

#include <nlohmann/json.hpp>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/constraint_builder.hpp>
#include <valijson/constraints/concrete_constraints.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <regex>
#include <string_view>
#include <utility>

#include "nexus/base/mutex.h"
#include "nexus/base/utf8_cut.h"
#include "nexus/schema/canonical_json.h"
#include "nexus/schema/schema_lowering.h"

namespace nexus::schema {
namespace {

using Adapter = valijson::adapters::NlohmannJsonAdapter;

// Far above any real call; below them no check takes more than seconds.
constexpr int kMaxArgumentLevels = 64;
constexpr size_t kMaxArgumentValues = 20000;
constexpr size_t kMaxArrayItems = 4096;  // uniqueItems compares all pairs
constexpr size_t kMaxSteps = 50'000;

constexpr size_t kMaxPatternBytes = 1000;
constexpr size_t kMaxPatternStates = 20000;
constexpr size_t kMaxMatchedBytes = 4096;

constexpr size_t kMaxViolations = 4;
constexpr size_t kMaxViolationBytes = 160;

struct BudgetExceeded : std::exception {
  const char* what() const noexcept override { return "too many steps"; }
};

// Constraints are cloned into valijson's own memory by the size they name.
template <typename Derived>
class Constraint : public valijson::constraints::PolyConstraint {
  valijson::constraints::Constraint* cloneInto(void* memory) const override {
    return new (memory) Derived(static_cast<const Derived&>(*this));
  }
  size_t sizeOf() const override { return sizeof(Derived); }
};

// Throws once the validator has visited too many subschemas.
class StepConstraint : public Constraint<StepConstraint> {
 public:
  explicit StepConstraint(size_t* steps) : steps_(steps) {}

  bool validate(const valijson::adapters::Adapter&,
                const std::vector<std::string>&,
                valijson::ValidationResults*) const override {
    if (++*steps_ > kMaxSteps) throw BudgetExceeded();
    return true;
  }

 private:
  size_t* steps_;
};

// The matcher's automaton copies a group for each repetition: an upper bound of
// its size from the counts in braces.
size_t StateBound(std::string_view pattern) {
  size_t product = pattern.size();
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') continue;
    size_t largest = 1;
    size_t number = 0;
    for (++i; i < pattern.size() && pattern[i] != '}'; ++i) {
      const bool is_digit = pattern[i] >= '0' && pattern[i] <= '9';
      number = is_digit
                   ? std::min<size_t>(
                         number * 10 + static_cast<size_t>(pattern[i] - '0'),
                         kMaxPatternStates)
                   : 0;
      largest = std::max(largest, number);
    }
    product *= largest;
    if (product > kMaxPatternStates) return product;
  }
  return product;
}

// Nothing for what std::regex doesn't know (look-behind, \p{L}, named groups)
// or would take too long over: such a pattern goes unchecked.
std::optional<std::regex> Compile(const std::string& pattern) {
  if (pattern.size() > kMaxPatternBytes ||
      StateBound(pattern) > kMaxPatternStates) {
    return std::nullopt;
  }
  auto flags = std::regex::ECMAScript;
#ifdef __GLIBCXX__
  // libstdc++ backtracks by default, on the stack: long strings overflow it and
  // "(a+)+" never ends. This flag selects its breadth-first matcher.
  flags |= std::regex_constants::__polynomial;
#endif
  try {
    return std::regex(pattern, flags);
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

class PatternConstraint : public Constraint<PatternConstraint> {
 public:
  explicit PatternConstraint(std::string pattern)
      : pattern_(std::move(pattern)), regex_(Compile(pattern_)) {}

  bool validate(const valijson::adapters::Adapter& target,
                const std::vector<std::string>& context,
                valijson::ValidationResults* results) const override {
    if (!target.isString() || !regex_.has_value()) return true;
    const std::string text = target.asString();
    if (text.size() > kMaxMatchedBytes) return true;
    try {
      if (std::regex_search(text, *regex_)) return true;
    } catch (const std::regex_error&) {
      return true;
    }
    if (results != nullptr) {
      results->pushError(context, "doesn't match the pattern " + pattern_);
    }
    return false;
  }

 private:
  std::string pattern_;
  std::optional<std::regex> regex_;
};

class StepBuilder : public valijson::ConstraintBuilder {
 public:
  explicit StepBuilder(size_t* steps) : steps_(steps) {}
  valijson::constraints::Constraint* make(
      const valijson::adapters::Adapter&) const override {
    return new StepConstraint(steps_);
  }

 private:
  size_t* steps_;
};

class PatternBuilder : public valijson::ConstraintBuilder {
 public:
  valijson::constraints::Constraint* make(
      const valijson::adapters::Adapter& value) const override {
    return new PatternConstraint(value.asString());
  }
};

// {"<root>", "[a]", "[0]"} as "a[0]".
std::string PathOf(const std::vector<std::string>& context) {
  std::string path;
  for (const std::string& part : context) {
    if (part == "<root>") continue;
    std::string_view name = part;
    if (name.size() >= 2 && name.front() == '[' && name.back() == ']') {
      name = name.substr(1, name.size() - 2);
    }
    if (name.find_first_not_of("0123456789") == std::string_view::npos) {
      path.append("[").append(name).append("]");
      continue;
    }
    if (!path.empty()) path.push_back('.');
    path.append(name);
  }
  return path.empty() ? "arguments" : path;
}

// What only repeats that something inside was wrong.
bool IsEcho(std::string_view description) {
  return description.starts_with("Failed to validate against schema") ||
         description.starts_with("Failed to validate item") ||
         description.starts_with("Failed to validate against child schema") ||
         description.starts_with("Failed to validate against additional");
}

std::string Clip(std::string text) {
  if (text.size() <= kMaxViolationBytes) return text;
  return std::string(CutUtf8(text, kMaxViolationBytes)) + "...";
}

std::string Violations(const valijson::ValidationResults& results) {
  std::vector<std::string> lines;
  for (const bool echoes : {false, true}) {
    if (!lines.empty()) break;
    for (const auto& error : results) {
      if (IsEcho(error.description) != echoes) continue;
      std::string line = PathOf(error.context) + ": " + error.description;
      if (line.ends_with('.')) line.pop_back();
      line = Clip(std::move(line));
      if (std::find(lines.begin(), lines.end(), line) != lines.end()) continue;
      if (lines.size() == kMaxViolations) break;
      lines.push_back(std::move(line));
    }
  }
  std::string text;
  for (const std::string& line : lines) {
    if (!text.empty()) text.append("; ");
    text.append(line);
  }
  return text.empty() ? "arguments: don't match the schema" : text;
}

// Counts values; false once a bound is passed.
bool IsWithinBounds(const Json& value, size_t* values) {
  if (++*values > kMaxArgumentValues) return false;
  if (!value.is_structured()) return true;
  if (value.is_array() && value.size() > kMaxArrayItems) return false;
  return std::all_of(value.begin(), value.end(), [&](const Json& item) {
    return IsWithinBounds(item, values);
  });
}

}  // namespace

struct ArgumentValidator::Impl {
  // Steps of the running validation; constraints hold its address.
  size_t steps = 0;
  Mutex mutex;  // for one validation
  valijson::Schema schema;
};

ArgumentValidator::ArgumentValidator() : impl_(std::make_unique<Impl>()) {}
ArgumentValidator::~ArgumentValidator() = default;

Result<std::unique_ptr<ArgumentValidator>> ArgumentValidator::Create(
    const Json& parameters) {
  NEXUS_ASSIGN_OR_RETURN(const Json lowered, internal::LowerSchema(parameters));
  std::unique_ptr<ArgumentValidator> validator(new ArgumentValidator());
  try {
    const nlohmann::json document(lowered);
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    parser.addConstraintBuilder(internal::kStepKeyword,
                                new StepBuilder(&validator->impl_->steps));
    parser.addConstraintBuilder(internal::kPatternKeyword,
                                new PatternBuilder());
    parser.populateSchema(Adapter(document), validator->impl_->schema);
  } catch (const std::exception& error) {
    return InvalidArgumentError(std::string("schema: ") + Clip(error.what()));
  }
  return validator;
}

Status ArgumentValidator::Validate(const Json& arguments) const {
  size_t values = 0;
  if (LevelCount(arguments) > kMaxArgumentLevels ||
      !IsWithinBounds(arguments, &values)) {
    return InvalidArgumentError(
        "arguments: over " + std::to_string(kMaxArgumentLevels) + " levels, " +
        std::to_string(kMaxArgumentValues) + " values or " +
        std::to_string(kMaxArrayItems) + " items in an array");
  }
  MutexLock lock(impl_->mutex);
  impl_->steps = 0;
  try {
    const nlohmann::json document(arguments);
    valijson::ValidationResults results;
    valijson::Validator validator(valijson::Validator::kStrongTypes);
    if (validator.validate(impl_->schema, Adapter(document), &results)) {
      return Status::Ok();
    }
    return InvalidArgumentError(Violations(results));
  } catch (const BudgetExceeded&) {
    return ResourceExhaustedError("arguments: the schema needs more than " +
                                  std::to_string(kMaxSteps) +
                                  " steps to check them");
  } catch (const std::exception& error) {
    return InternalError(std::string("arguments: ") + Clip(error.what()));
  }
}

}  // namespace nexus::schema
