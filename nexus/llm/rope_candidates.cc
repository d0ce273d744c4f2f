#include "nexus/llm/rope_candidates.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "ggml.h"
#include "gguf.h"

#include "nexus/base/hash.h"

namespace nexus::llm {
namespace {

// Frequency factors have one value a pair; no head is near this long.
constexpr int64_t kMaxFactors = 4096;

struct GgufDeleter {
  void operator()(gguf_context* gguf) const { gguf_free(gguf); }
};

// Metadata and small tensors of a file that the engine has already accepted.
// The model API gives floats as text of six decimals, too coarse for angles.
class File {
 public:
  explicit File(const Model& model)
      : path_(model.info().path),
        prefix_(model.info().architecture + "."),
        gguf_(gguf_init_from_file(path_.c_str(),
                                  {.no_alloc = true, .ctx = nullptr})) {}

  bool ok() const { return gguf_ != nullptr; }

  // nullopt when absent or of another type.
  std::optional<float> Float(const std::string& key) const {
    const int64_t id = Find(key, GGUF_TYPE_FLOAT32);
    if (id < 0) return std::nullopt;
    return gguf_get_val_f32(gguf_.get(), id);
  }
  std::optional<uint32_t> Integer(const std::string& key) const {
    const int64_t id = Find(key, GGUF_TYPE_UINT32);
    if (id < 0) return std::nullopt;
    return gguf_get_val_u32(gguf_.get(), id);
  }
  std::string Text(const std::string& key) const {
    const int64_t id = Find(key, GGUF_TYPE_STRING);
    return id < 0 ? "" : gguf_get_val_str(gguf_.get(), id);
  }
  // Empty when there is no such tensor.
  Result<std::vector<float>> Factors(const char* name) const;

 private:
  int64_t Find(const std::string& key, gguf_type type) const {
    const int64_t id = gguf_find_key(gguf_.get(), (prefix_ + key).c_str());
    return id >= 0 && gguf_get_kv_type(gguf_.get(), id) == type ? id : -1;
  }

  std::string path_;
  std::string prefix_;
  std::unique_ptr<gguf_context, GgufDeleter> gguf_;
};

Result<std::vector<float>> File::Factors(const char* name) const {
  std::vector<float> factors;
  const int64_t id = gguf_find_tensor(gguf_.get(), name);
  if (id < 0) return factors;
  const int64_t count = gguf_get_tensor_ne(gguf_.get(), id)[0];
  const size_t bytes = gguf_get_tensor_size(gguf_.get(), id);
  if (gguf_get_tensor_type(gguf_.get(), id) != GGML_TYPE_F32 || count <= 0 ||
      count > kMaxFactors ||
      bytes != static_cast<size_t>(count) * sizeof(float)) {
    return UnimplementedError(path_ + ": tensor " + name +
                              " isn't a short vector of F32");
  }
  factors.resize(static_cast<size_t>(count));
  std::ifstream file(path_, std::ios::binary);
  file.seekg(
      static_cast<std::streamoff>(gguf_get_data_offset(gguf_.get()) +
                                  gguf_get_tensor_offset(gguf_.get(), id)));
  file.read(reinterpret_cast<char*>(factors.data()),
            static_cast<std::streamsize>(bytes));
  if (!file) return IoError(path_ + ": cannot read tensor " + name);
  const bool usable = std::all_of(factors.begin(), factors.end(), [](float f) {
    return std::isfinite(f) && f != 0.0F;
  });
  if (!usable) {
    return CorruptionError(path_ + ": tensor " + name +
                           " holds zero or infinite frequency factors");
  }
  return factors;
}

// Alternatives of one setting, without repetitions and in order of preference.
template <typename T>
class Choices {
 public:
  void Add(const std::optional<T>& value) {
    if (value.has_value() &&
        std::find(values_.begin(), values_.end(), *value) == values_.end()) {
      values_.push_back(*value);
    }
  }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::vector<T> values_;
};

struct Scaling {
  float freq_scale = 1.0F;
  float ext_factor = 0.0F;
  friend bool operator==(const Scaling&, const Scaling&) = default;
};

// As llama_context derives them: the scale is 1 / factor unless the type is
// "none"; YaRN's mix is on (1) when the type says so.
Choices<Scaling> ListScalings(const File& file) {
  std::optional<float> factor = file.Float("rope.scaling.factor");
  if (!factor) factor = file.Float("rope.scale_linear");
  const std::string type = file.Text("rope.scaling.type");
  const bool scaled = factor && *factor > 0.0F && type != "none";
  const float scale = scaled ? 1.0F / *factor : 1.0F;
  float mix = type == "yarn" ? 1.0F : 0.0F;
  const std::optional<float> stated =
      file.Float("rope.scaling.yarn_ext_factor");
  if (stated && *stated >= 0.0F) mix = *stated;
  Choices<Scaling> scalings;
  scalings.Add(Scaling{scale, mix});
  // Window layers and layers of some families leave out one or the other.
  scalings.Add(Scaling{1.0F, 0.0F});
  scalings.Add(Scaling{scale, 0.0F});
  return scalings;
}

Choices<float> ListBases(const File& file) {
  Choices<float> bases;
  bases.Add(file.Float("rope.freq_base").value_or(10000.0F));
  bases.Add(file.Float("rope.freq_base_swa"));
  // What llama.cpp takes for window layers when the file is silent (Gemma 3),
  // and Gemma 3's other base.
  bases.Add(10000.0F);
  bases.Add(1000000.0F);
  return bases;
}

}  // namespace

Result<std::vector<RopeCandidate>> ListRopeCandidates(const Model& model) {
  const ModelInfo& info = model.info();
  const File file(model);
  if (!file.ok()) {
    return IoError(info.path + ": cannot read the metadata again");
  }

  Choices<uint32_t> head_dims;
  head_dims.Add(file.Integer("attention.key_length"));
  if (info.head_count > 0) {
    head_dims.Add(static_cast<uint32_t>(info.embedding_size / info.head_count));
  }
  head_dims.Add(file.Integer("attention.key_length_swa"));

  Choices<std::vector<float>> factors;
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight",
                           "rope_factors_short.weight"}) {
    NEXUS_ASSIGN_OR_RETURN(std::vector<float> values, file.Factors(name));
    if (!values.empty()) factors.Add(std::move(values));
  }
  factors.Add(std::vector<float>{});

  std::vector<RopeCandidate> candidates;
  const bool rotates = info.rope == RopeKind::kAdjacentPairs ||
                       info.rope == RopeKind::kHalfSplit;
  for (const uint32_t head_dim : head_dims) {
    if (head_dim == 0) continue;
    Choices<uint32_t> rotated;
    rotated.Add(file.Integer("rope.dimension_count"));
    rotated.Add(head_dim);
    rotated.Add(file.Integer("rope.dimension_count_swa"));
    for (const uint32_t dims : rotated) {
      if (!rotates || dims == 0 || dims > head_dim || dims % 2 != 0) continue;
      for (const float base : ListBases(file)) {
        for (const Scaling& scaling : ListScalings(file)) {
          for (const std::vector<float>& factor : factors) {
            if (!factor.empty() && factor.size() != dims / 2) continue;
            RopeCandidate& candidate = candidates.emplace_back();
            candidate.head_dim = head_dim;
            candidate.params = {.layout = info.rope == RopeKind::kAdjacentPairs
                                              ? simd::RopeLayout::kAdjacentPairs
                                              : simd::RopeLayout::kHalfSplit,
                                .rotated_dims = dims,
                                .base = base,
                                .freq_scale = scaling.freq_scale,
                                .ext_factor = scaling.ext_factor,
                                .freq_factors = factor};
            if (scaling.ext_factor == 0.0F) continue;
            candidate.params.beta_fast =
                file.Float("rope.scaling.yarn_beta_fast").value_or(32.0F);
            candidate.params.beta_slow =
                file.Float("rope.scaling.yarn_beta_slow").value_or(1.0F);
            candidate.params.original_context =
                file.Integer("rope.scaling.original_context_length")
                    .value_or(static_cast<uint32_t>(info.context_train));
          }
        }
      }
    }
  }
  // Some models leave whole layers unrotated (NoPE: every fourth of SmolLM3).
  for (const uint32_t head_dim : head_dims) {
    if (head_dim > 0)
      candidates.push_back({.params = {}, .head_dim = head_dim});
  }
  return candidates;
}

std::string DescribeRope(const RopeCandidate& candidate) {
  const simd::RopeParams& params = candidate.params;
  if (params.rotated_dims == 0) {
    return "not rotated, " + std::to_string(candidate.head_dim) + " dims";
  }
  // Nine digits tell any two floats apart.
  const auto number = [](float value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", static_cast<double>(value));
    return std::string(text);
  };
  std::string text = params.layout == simd::RopeLayout::kAdjacentPairs
                         ? "adjacent pairs"
                         : "half-split";
  text += ", " + std::to_string(params.rotated_dims) + " of " +
          std::to_string(candidate.head_dim) + " dims, base " +
          number(params.base);
  if (params.freq_scale != 1.0F) text += ", scale " + number(params.freq_scale);
  if (params.ext_factor != 0.0F) {
    text += ", YaRN " + number(params.ext_factor) + " (fast " +
            number(params.beta_fast) + ", slow " + number(params.beta_slow) +
            ", from " + std::to_string(params.original_context) + ")";
  }
  if (!params.freq_factors.empty()) {
    char digest[24];
    std::snprintf(digest, sizeof(digest), "%016llx",
                  static_cast<unsigned long long>(
                      Xxh3(params.freq_factors.data(),
                           params.freq_factors.size() * sizeof(float))));
    text += ", frequency factors " + std::string(digest);
  }
  return text;
}

}  // namespace nexus::llm
