#include "nexus/llm/testing/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "ggml.h"
#include "gguf.h"

namespace nexus::llm::testing {
namespace {

struct GgufDeleter {
  void operator()(gguf_context* gguf) const { gguf_free(gguf); }
};
struct GgmlDeleter {
  void operator()(ggml_context* ggml) const { ggml_free(ggml); }
};

// SplitMix64. The standard library's distributions differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}

  // Uniform with mean 0 and standard deviation 1.
  float Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    const double unit = static_cast<double>(z >> 11) * 0x1.0p-53;
    return static_cast<float>((2.0 * unit - 1.0) * 1.7320508075688772);
  }

 private:
  uint64_t state_;
};

constexpr uint32_t kConvolution = 4;  // taps, of Mamba and LFM2
constexpr uint32_t kStateSize = 8;    // of Mamba, a channel

std::string ArchName(TinyArch arch) {
  switch (arch) {
    case TinyArch::kLlama:
      return "llama";
    case TinyArch::kSmolLm3:
      return "smollm3";
    case TinyArch::kQwen2:
      return "qwen2";
    case TinyArch::kQwen3:
      return "qwen3";
    case TinyArch::kGemma2:
      return "gemma2";
    case TinyArch::kGemma3:
      return "gemma3";
    case TinyArch::kStableLm:
      return "stablelm";
    case TinyArch::kGlm4:
      return "glm4";
    case TinyArch::kQwen2Vl:
      return "qwen2vl";
    case TinyArch::kGpt2:
      return "gpt2";
    case TinyArch::kMamba:
      return "mamba";
    case TinyArch::kLfm2:
      return "lfm2";
    case TinyArch::kBert:
      return "bert";
  }
  return "";
}

std::string Utf8(uint32_t code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

// The printable stand-in that byte-level BPE vocabularies use for each byte
// (GPT-2): printable Latin-1 stands for itself, the rest is moved up from 256.
std::vector<std::string> ByteTokens() {
  std::vector<std::string> tokens;
  uint32_t moved = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) ||
                           (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    tokens.push_back(Utf8(printable ? byte : moved++));
  }
  return tokens;
}

class Writer {
 public:
  explicit Writer(const TinyModelOptions& options)
      : options_(options),
        arch_(ArchName(options.arch)),
        embedding_(options.head_count * 16),
        random_(options.seed),
        gguf_(gguf_init_empty()) {}

  Status Write(const std::string& path);

 private:
  void SetInt(const std::string& key, uint32_t value) {
    gguf_set_val_u32(gguf_.get(), (arch_ + "." + key).c_str(), value);
  }
  void SetInts(const std::string& key, const std::vector<uint32_t>& values) {
    gguf_set_arr_data(gguf_.get(), (arch_ + "." + key).c_str(),
                      GGUF_TYPE_UINT32, values.data(), values.size());
  }
  void SetFloat(const std::string& key, float value) {
    gguf_set_val_f32(gguf_.get(), (arch_ + "." + key).c_str(), value);
  }
  void SetText(const std::string& key, const std::string& value) {
    gguf_set_val_str(gguf_.get(), (arch_ + "." + key).c_str(), value.c_str());
  }

  void WriteHyperparameters();
  void WriteScaling();
  void WriteBpeVocabulary();
  void WriteWordPieceVocabulary();
  void WriteVocabulary(const std::string& model,
                       const std::vector<std::string>& tokens,
                       const std::vector<int32_t>& types);
  void WriteArchHyperparameters();
  void WriteDecoderTensors();
  void WriteAttentionTensors(const std::string& layer);
  void WriteFeedForwardTensors(const std::string& layer);
  void WriteConvolutionTensors(const std::string& layer);
  void WriteGpt2Tensors();
  void WriteMambaTensors();
  void WriteEncoderTensors();
  void WriteClassLabels();

  // value = mean + deviation * random, rows of `columns`.
  float* AddTensor(const std::string& name, int64_t columns, int64_t rows,
                   float mean, float deviation);
  void AddMatrix(const std::string& name, uint32_t in, uint32_t out) {
    AddTensor(name, in, out, 0.0F, 1.0F / std::sqrt(static_cast<float>(in)));
  }
  void AddNorm(const std::string& name, uint32_t size) {
    AddTensor(name + ".weight", size, 0, 1.0F, 0.1F);
    if (layer_norm_) AddBias(name, size);
  }
  void AddBias(const std::string& name, uint32_t size) {
    AddTensor(name + ".bias", size, 0, 0.0F, 0.2F);
  }

  const TinyModelOptions& options_;
  std::string arch_;
  uint32_t embedding_;
  uint32_t vocab_size_ = 0;
  bool layer_norm_ = false;  // mean and bias, instead of RMS norm
  Random random_;
  std::unique_ptr<gguf_context, GgufDeleter> gguf_;
  std::unique_ptr<ggml_context, GgmlDeleter> ggml_;
};

void Writer::WriteHyperparameters() {
  gguf_set_val_str(gguf_.get(), "general.architecture", arch_.c_str());
  gguf_set_val_str(gguf_.get(), "general.name", ("tiny " + arch_).c_str());
  SetInt("context_length", options_.context_train);
  SetInt("embedding_length", embedding_);
  SetInt("block_count", options_.layer_count);
  SetInt("feed_forward_length", options_.feed_forward);
  SetInt("attention.head_count", options_.head_count);
  if (options_.arch != TinyArch::kLfm2) {
    SetInt("attention.head_count_kv", options_.head_count_kv);
  }
  const char* epsilon = layer_norm_ ? "attention.layer_norm_epsilon"
                                    : "attention.layer_norm_rms_epsilon";
  SetFloat(epsilon, options_.arch == TinyArch::kBert ? 1e-12F : 1e-6F);
  WriteArchHyperparameters();
  WriteScaling();
}

void Writer::WriteArchHyperparameters() {
  const bool rotates = options_.arch != TinyArch::kBert &&
                       options_.arch != TinyArch::kGpt2 &&
                       options_.arch != TinyArch::kMamba;
  if (rotates) SetFloat("rope.freq_base", options_.rope_base);
  switch (options_.arch) {
    case TinyArch::kGemma2:
      SetFloat("attn_logit_softcapping", 50.0F);
      SetFloat("final_logit_softcapping", 30.0F);
      [[fallthrough]];
    case TinyArch::kGemma3:
      SetInt("attention.sliding_window", options_.sliding_window);
      SetInt("attention.sliding_window_pattern",
             options_.sliding_window_pattern);
      [[fallthrough]];
    case TinyArch::kQwen3:
      SetInt("attention.key_length", options_.head_dim);
      SetInt("attention.value_length", options_.head_dim);
      break;
    case TinyArch::kLlama:
    case TinyArch::kSmolLm3:
      SetInt("rope.dimension_count", options_.head_dim);
      break;
    case TinyArch::kStableLm:
      SetInt("rope.dimension_count", options_.head_dim / 4);
      gguf_set_val_bool(gguf_.get(), "stablelm.use_parallel_residual", false);
      break;
    case TinyArch::kGlm4:
      SetInt("rope.dimension_count", options_.head_dim / 2);
      break;
    case TinyArch::kQwen2Vl:
      // Pairs for time, height and width.
      SetInts("rope.dimension_sections",
              {options_.head_dim / 4, options_.head_dim / 8,
               options_.head_dim / 8, 0});
      break;
    case TinyArch::kMamba:
      SetInt("ssm.conv_kernel", kConvolution);
      SetInt("ssm.inner_size", 2 * embedding_);
      SetInt("ssm.state_size", kStateSize);
      SetInt("ssm.time_step_rank", embedding_ / 16);
      break;
    case TinyArch::kLfm2: {
      SetInt("shortconv.l_cache", kConvolution);
      std::vector<uint32_t> heads(options_.layer_count, 0);
      heads.back() = options_.head_count_kv;
      SetInts("attention.head_count_kv", heads);
      break;
    }
    case TinyArch::kBert:
      gguf_set_val_bool(gguf_.get(), "bert.attention.causal", false);
      SetInt("pooling_type", options_.rank_outputs > 0 ? 4 : 1);  // rank, mean
      WriteClassLabels();
      break;
    default:
      break;  // Qwen2 files state neither; GPT-2 has no rotation
  }
}

void Writer::WriteScaling() {
  switch (options_.scaling) {
    case TinyScaling::kNone:
      return;
    case TinyScaling::kLinear:
      SetText("rope.scaling.type", "linear");
      SetFloat("rope.scaling.factor", 4.0F);
      return;
    case TinyScaling::kYarn:
      SetText("rope.scaling.type", "yarn");
      SetFloat("rope.scaling.factor", 4.0F);
      SetInt("rope.scaling.original_context_length",
             options_.context_train / 4);
      return;
    case TinyScaling::kLlama3: {
      // As Llama 3.1: short wavelengths stay, long ones are stretched by 8.
      const uint32_t pairs = options_.head_dim / 2;
      float* factors = AddTensor("rope_freqs.weight", pairs, 0, 0.0F, 0.0F);
      for (uint32_t i = 0; i < pairs; ++i) {
        const float t = static_cast<float>(i) / static_cast<float>(pairs - 1);
        factors[i] = std::clamp(16.0F * t - 4.0F, 1.0F, 8.0F);
      }
      return;
    }
  }
}

void Writer::WriteVocabulary(const std::string& model,
                             const std::vector<std::string>& tokens,
                             const std::vector<int32_t>& types) {
  std::vector<const char*> texts;
  for (const std::string& token : tokens) texts.push_back(token.c_str());
  vocab_size_ = static_cast<uint32_t>(tokens.size());
  gguf_set_val_str(gguf_.get(), "tokenizer.ggml.model", model.c_str());
  gguf_set_arr_str(gguf_.get(), "tokenizer.ggml.tokens", texts.data(),
                   texts.size());
  gguf_set_arr_data(gguf_.get(), "tokenizer.ggml.token_type", GGUF_TYPE_INT32,
                    types.data(), types.size());
  if (!options_.chat_template.empty()) {
    gguf_set_val_str(gguf_.get(), "tokenizer.chat_template",
                     options_.chat_template.c_str());
  }
}

constexpr int32_t kNormalToken = 1;
constexpr int32_t kControlToken = 3;

void Writer::WriteBpeVocabulary() {
  std::vector<std::string> tokens = ByteTokens();
  // A few merges, so that token boundaries depend on the text around them.
  const std::vector<std::pair<std::string, std::string>> merges = {
      {Utf8(0x120), "t"}, {"h", "e"}, {"i", "n"}, {Utf8(0x120), "a"}};
  std::vector<std::string> merge_texts;
  for (const auto& [left, right] : merges) {
    tokens.push_back(left + right);
    merge_texts.push_back(left + " " + right);
  }
  std::vector<int32_t> types(tokens.size(), kNormalToken);
  const auto first_special = static_cast<uint32_t>(tokens.size());
  for (const char* special : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace_back(special);
    types.push_back(kControlToken);
  }
  WriteVocabulary("gpt2", tokens, types);
  std::vector<const char*> merge_pointers;
  for (const std::string& text : merge_texts) {
    merge_pointers.push_back(text.c_str());
  }
  gguf_set_arr_str(gguf_.get(), "tokenizer.ggml.merges", merge_pointers.data(),
                   merge_pointers.size());
  gguf_context* gguf = gguf_.get();
  gguf_set_val_str(gguf, "tokenizer.ggml.pre", "qwen2");
  gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", first_special);
  gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", first_special + 1);
  gguf_set_val_u32(gguf, "tokenizer.ggml.eot_token_id", first_special + 3);
  gguf_set_val_bool(
      gguf, "tokenizer.ggml.add_bos_token",
      options_.arch != TinyArch::kQwen2 && options_.arch != TinyArch::kQwen3);
}

void Writer::WriteWordPieceVocabulary() {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                     "[MASK]"};
  std::vector<int32_t> types(tokens.size(), kControlToken);
  // Every printable character, at the start of a word and inside one.
  for (char c = '!'; c <= '~'; ++c) {
    tokens.push_back("\xE2\x96\x81" + std::string(1, c));
    tokens.emplace_back(1, c);
  }
  types.resize(tokens.size(), kNormalToken);
  WriteVocabulary("bert", tokens, types);
  gguf_context* gguf = gguf_.get();
  gguf_set_val_u32(gguf, "tokenizer.ggml.token_type_count", 2);
  gguf_set_val_u32(gguf, "tokenizer.ggml.padding_token_id", 0);
  gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 1);
  gguf_set_val_u32(gguf, "tokenizer.ggml.cls_token_id", 2);
  gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 2);
  gguf_set_val_u32(gguf, "tokenizer.ggml.seperator_token_id", 3);
  gguf_set_val_u32(gguf, "tokenizer.ggml.mask_token_id", 4);
}

float* Writer::AddTensor(const std::string& name, int64_t columns, int64_t rows,
                         float mean, float deviation) {
  ggml_tensor* tensor =
      rows == 0 ? ggml_new_tensor_1d(ggml_.get(), GGML_TYPE_F32, columns)
                : ggml_new_tensor_2d(ggml_.get(), GGML_TYPE_F32, columns, rows);
  ggml_set_name(tensor, name.c_str());
  float* values = ggml_get_data_f32(tensor);
  const int64_t count = columns * std::max<int64_t>(rows, 1);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = mean + deviation * random_.Next();
  }
  gguf_add_tensor(gguf_.get(), tensor);
  return values;
}

void Writer::WriteAttentionTensors(const std::string& layer) {
  const uint32_t q_size = options_.head_count * options_.head_dim;
  const uint32_t kv_size = options_.head_count_kv * options_.head_dim;
  AddMatrix(layer + "attn_q.weight", embedding_, q_size);
  AddMatrix(layer + "attn_k.weight", embedding_, kv_size);
  AddMatrix(layer + "attn_v.weight", embedding_, kv_size);
  AddMatrix(layer + "attn_output.weight", q_size, embedding_);
  if (options_.arch == TinyArch::kQwen2 ||
      options_.arch == TinyArch::kQwen2Vl) {
    AddBias(layer + "attn_q", q_size);
    AddBias(layer + "attn_k", kv_size);
    AddBias(layer + "attn_v", kv_size);
  }
  if (options_.arch == TinyArch::kQwen3 || options_.arch == TinyArch::kGemma3 ||
      options_.arch == TinyArch::kLfm2) {
    AddNorm(layer + "attn_q_norm", options_.head_dim);
    AddNorm(layer + "attn_k_norm", options_.head_dim);
  }
}

void Writer::WriteFeedForwardTensors(const std::string& layer) {
  AddNorm(layer + "ffn_norm", embedding_);
  if (options_.arch == TinyArch::kGlm4) {  // gate and up in one
    AddMatrix(layer + "ffn_up.weight", embedding_, 2 * options_.feed_forward);
  } else {
    AddMatrix(layer + "ffn_gate.weight", embedding_, options_.feed_forward);
    AddMatrix(layer + "ffn_up.weight", embedding_, options_.feed_forward);
  }
  AddMatrix(layer + "ffn_down.weight", options_.feed_forward, embedding_);
}

void Writer::WriteConvolutionTensors(const std::string& layer) {
  AddMatrix(layer + "shortconv.in_proj.weight", embedding_, 3 * embedding_);
  AddMatrix(layer + "shortconv.conv.weight", kConvolution, embedding_);
  AddMatrix(layer + "shortconv.out_proj.weight", embedding_, embedding_);
}

void Writer::WriteDecoderTensors() {
  const bool gemma =
      options_.arch == TinyArch::kGemma2 || options_.arch == TinyArch::kGemma3;
  // RMS-normed hidden states against embeddings of deviation 0.25: logits of
  // deviation 2 for 64 dimensions, neither flat nor one-hot.
  AddTensor("token_embd.weight", embedding_, vocab_size_, 0.0F, 0.25F);
  if (!gemma) {
    AddTensor("output.weight", embedding_, vocab_size_, 0.0F, 0.25F);
  }
  AddNorm(options_.arch == TinyArch::kLfm2 ? "token_embd_norm" : "output_norm",
          embedding_);
  for (uint32_t i = 0; i < options_.layer_count; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    AddNorm(layer + "attn_norm", embedding_);
    if (options_.arch == TinyArch::kLfm2 && i + 1 < options_.layer_count) {
      WriteConvolutionTensors(layer);
    } else {
      WriteAttentionTensors(layer);
    }
    if (gemma || options_.arch == TinyArch::kGlm4) {
      AddNorm(layer + "post_attention_norm", embedding_);
      AddNorm(layer + "post_ffw_norm", embedding_);
    }
    WriteFeedForwardTensors(layer);
  }
}

void Writer::WriteGpt2Tensors() {
  AddTensor("token_embd.weight", embedding_, vocab_size_, 0.0F, 0.25F);
  AddTensor("position_embd.weight", embedding_, options_.context_train, 0.0F,
            0.1F);
  AddTensor("output.weight", embedding_, vocab_size_, 0.0F, 0.25F);
  AddNorm("output_norm", embedding_);
  for (uint32_t i = 0; i < options_.layer_count; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    const uint32_t qkv_size =
        embedding_ + 2 * options_.head_count_kv * options_.head_dim;
    AddNorm(layer + "attn_norm", embedding_);
    AddMatrix(layer + "attn_qkv.weight", embedding_, qkv_size);
    AddBias(layer + "attn_qkv", qkv_size);
    AddMatrix(layer + "attn_output.weight", embedding_, embedding_);
    AddBias(layer + "attn_output", embedding_);
    AddNorm(layer + "ffn_norm", embedding_);
    AddMatrix(layer + "ffn_up.weight", embedding_, options_.feed_forward);
    AddBias(layer + "ffn_up", options_.feed_forward);
    AddMatrix(layer + "ffn_down.weight", options_.feed_forward, embedding_);
    AddBias(layer + "ffn_down", embedding_);
  }
}

void Writer::WriteMambaTensors() {
  const uint32_t inner = 2 * embedding_;
  const uint32_t rank = embedding_ / 16;
  AddTensor("token_embd.weight", embedding_, vocab_size_, 0.0F, 0.25F);
  AddTensor("output.weight", embedding_, vocab_size_, 0.0F, 0.25F);
  AddNorm("output_norm", embedding_);
  for (uint32_t i = 0; i < options_.layer_count; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    AddNorm(layer + "attn_norm", embedding_);
    AddMatrix(layer + "ssm_in.weight", embedding_, 2 * inner);
    AddMatrix(layer + "ssm_conv1d.weight", kConvolution, inner);
    AddBias(layer + "ssm_conv1d", inner);
    AddMatrix(layer + "ssm_x.weight", inner, rank + 2 * kStateSize);
    AddMatrix(layer + "ssm_dt.weight", rank, inner);
    AddBias(layer + "ssm_dt", inner);
    // Negative, or the state grows without bound.
    AddTensor(layer + "ssm_a", kStateSize, inner, -1.0F, 0.2F);
    AddTensor(layer + "ssm_d", inner, 0, 1.0F, 0.1F);
    AddMatrix(layer + "ssm_out.weight", inner, embedding_);
  }
}

void Writer::WriteEncoderTensors() {
  AddTensor("token_embd.weight", embedding_, vocab_size_, 0.0F, 1.0F);
  AddTensor("token_types.weight", embedding_, 2, 0.0F, 0.1F);
  AddTensor("position_embd.weight", embedding_, options_.context_train, 0.0F,
            0.1F);
  AddNorm("token_embd_norm", embedding_);
  for (uint32_t i = 0; i < options_.layer_count; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      AddMatrix(layer + name + ".weight", embedding_, embedding_);
      AddBias(layer + name, embedding_);
    }
    AddNorm(layer + "attn_output_norm", embedding_);
    AddMatrix(layer + "ffn_up.weight", embedding_, options_.feed_forward);
    AddBias(layer + "ffn_up", options_.feed_forward);
    AddMatrix(layer + "ffn_down.weight", options_.feed_forward, embedding_);
    AddBias(layer + "ffn_down", embedding_);
    AddNorm(layer + "layer_output_norm", embedding_);
  }
  if (options_.rank_outputs == 0) return;
  AddMatrix("cls.weight", embedding_, embedding_);
  AddBias("cls", embedding_);
  AddMatrix("cls.output.weight", embedding_, options_.rank_outputs);
  AddBias("cls.output", options_.rank_outputs);
}

// The engine counts a classifier's outputs by its labels, and takes one where
// there are none.
void Writer::WriteClassLabels() {
  if (options_.rank_outputs < 2) return;
  std::vector<std::string> labels;
  std::vector<const char*> pointers;
  for (uint32_t i = 0; i < options_.rank_outputs; ++i) {
    labels.push_back("class " + std::to_string(i));
  }
  for (const std::string& label : labels) pointers.push_back(label.c_str());
  gguf_set_arr_str(gguf_.get(), (arch_ + ".classifier.output_labels").c_str(),
                   pointers.data(), pointers.size());
}

Status Writer::Write(const std::string& path) {
  const bool bert = options_.arch == TinyArch::kBert;
  const bool fixed_head =  // the engine takes head_dim = embedding / heads
      bert || options_.arch == TinyArch::kQwen2 ||
      options_.arch == TinyArch::kSmolLm3 ||
      options_.arch == TinyArch::kLlama ||
      options_.arch == TinyArch::kStableLm ||
      options_.arch == TinyArch::kGlm4 || options_.arch == TinyArch::kQwen2Vl ||
      options_.arch == TinyArch::kGpt2 || options_.arch == TinyArch::kLfm2;
  if (fixed_head) embedding_ = options_.head_count * options_.head_dim;
  if (options_.head_count == 0 || options_.head_count_kv == 0 ||
      options_.head_count % options_.head_count_kv != 0 ||
      options_.head_dim % 8 != 0 || options_.head_dim == 0 ||
      (bert && options_.head_count != options_.head_count_kv)) {
    return InvalidArgumentError(
        "tiny model: heads must be a multiple of KV heads (bert: equal) and "
        "head_dim a multiple of 8");
  }
  if (options_.scaling != TinyScaling::kNone &&
      options_.arch != TinyArch::kLlama && options_.arch != TinyArch::kQwen2) {
    return InvalidArgumentError(
        "tiny model: RoPE scaling needs llama or qwen2");
  }
  if (options_.scaling == TinyScaling::kLlama3 &&
      options_.arch != TinyArch::kLlama) {
    return InvalidArgumentError("tiny model: only llama reads rope_freqs");
  }
  const bool gpt2 = options_.arch == TinyArch::kGpt2;
  layer_norm_ = bert || gpt2 || options_.arch == TinyArch::kStableLm;

  const size_t vocab_bytes = sizeof(float) * embedding_ * 320 * 2;
  const size_t position_bytes =
      bert || gpt2 ? sizeof(float) * embedding_ * options_.context_train : 0;
  // The widest: attention of four matrices, Mamba's of 8 embeddings and change.
  const size_t layer_bytes =
      sizeof(float) * embedding_ *
          (4UL * options_.head_count * options_.head_dim + 8UL * embedding_ +
           3UL * options_.feed_forward + 128) +
      sizeof(float) * 4 * options_.feed_forward;
  const size_t tensor_count = 24UL * options_.layer_count + 16;
  ggml_.reset(ggml_init({
      .mem_size = vocab_bytes + position_bytes +
                  layer_bytes * options_.layer_count +
                  tensor_count * (ggml_tensor_overhead() + 64),
      .mem_buffer = nullptr,
      .no_alloc = false,
  }));
  if (ggml_ == nullptr) return ResourceExhaustedError("tiny model: no memory");

  if (bert) {
    WriteWordPieceVocabulary();
  } else {
    WriteBpeVocabulary();
  }
  WriteHyperparameters();
  switch (options_.arch) {
    case TinyArch::kBert:
      WriteEncoderTensors();
      break;
    case TinyArch::kGpt2:
      WriteGpt2Tensors();
      break;
    case TinyArch::kMamba:
      WriteMambaTensors();
      break;
    default:
      WriteDecoderTensors();
      break;
  }
  if (!gguf_write_to_file(gguf_.get(), path.c_str(), /*only_meta=*/false)) {
    return IoError("tiny model: cannot write " + path);
  }
  return Status::Ok();
}

}  // namespace

Status WriteTinyModel(const std::string& path,
                      const TinyModelOptions& options) {
  return Writer(options).Write(path);
}

}  // namespace nexus::llm::testing
