#include "nexus/llm/model.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

std::string ReadBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class ModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.File("tiny.gguf");
    ASSERT_OK(testing::WriteTinyModel(path_, {}));
  }
  // Loads a file of these bytes; the status must name it.
  Status LoadBytes(const std::string& bytes) {
    const std::string path = dir_.File("damaged.gguf");
    WriteBytes(path, bytes);
    const auto model = Model::Load({.path = path});
    if (!model.ok()) {
      EXPECT_NE(model.status().message().find("damaged.gguf"),
                std::string::npos)
          << model.status();
    }
    return model.status();
  }

  ScopedTempDir dir_;
  std::string path_;
};

TEST_F(ModelTest, DescribesTheFile) {
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Load({.path = path_}));
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.architecture, "llama");
  EXPECT_EQ(info.path, path_);
  EXPECT_EQ(info.file_bytes, std::filesystem::file_size(path_));
  EXPECT_EQ(info.layer_count, 3);
  EXPECT_EQ(info.head_count, 4);
  EXPECT_EQ(info.head_count_kv, 2);
  EXPECT_EQ(info.embedding_size, 64);
  EXPECT_EQ(info.context_train, 4096);
  EXPECT_GT(info.vocab_size, 256);
  EXPECT_EQ(info.rope, RopeKind::kAdjacentPairs);
  EXPECT_FALSE(info.encoder_only);
  EXPECT_TRUE(info.chat_template.empty());
  EXPECT_EQ(model->Metadata("general.architecture"), "llama");
  EXPECT_EQ(model->Metadata("no.such.key"), std::nullopt);
  EXPECT_NE(EngineVersion().find("llama.cpp"), std::string::npos);
}

TEST_F(ModelTest, KnowsOtherArchitectures) {
  testing::TinyModelOptions options;
  options.arch = testing::TinyArch::kQwen2;
  ASSERT_OK(testing::WriteTinyModel(path_, options));
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load({.path = path_}));
  EXPECT_EQ(model->info().rope, RopeKind::kHalfSplit);
  options.arch = testing::TinyArch::kBert;
  options.head_count_kv = options.head_count;
  ASSERT_OK(testing::WriteTinyModel(path_, options));
  ASSERT_OK_AND_ASSIGN(model, Model::Load({.path = path_}));
  EXPECT_TRUE(model->info().encoder_only);
  options = {.arch = testing::TinyArch::kGemma3};
  ASSERT_OK(testing::WriteTinyModel(path_, options));
  ASSERT_OK_AND_ASSIGN(model, Model::Load({.path = path_}));
  EXPECT_EQ(model->info().sliding_window, 64);
}

TEST_F(ModelTest, LoadsTheVocabularyAlone) {
  ASSERT_OK_AND_ASSIGN(const auto model,
                       Model::Load({.path = path_, .vocab_only = true}));
  EXPECT_EQ(model->Detokenize(*model->Tokenize("hello")), "hello");
}

TEST_F(ModelTest, MissingFilesAndFoldersAreNamed) {
  const auto missing = Model::Load({.path = "/no/such/model.gguf"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("/no/such/model.gguf"),
            std::string::npos);
  EXPECT_FALSE(Model::Load({.path = dir_.path()}).ok());
  EXPECT_FALSE(Model::Load({.path = ""}).ok());
}

TEST_F(ModelTest, ForeignFilesAreCorruption) {
  const std::string png("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  for (const std::string& bytes :
       {std::string(), png, std::string("# A text file\n"), std::string("GGU"),
        std::string("GGML00000000000000000000"), std::string("GGUF")}) {
    EXPECT_EQ(LoadBytes(bytes).code(), StatusCode::kCorruption) << bytes;
  }
}

TEST_F(ModelTest, TruncatedAnywhereIsCorruption) {
  const std::string bytes = ReadBytes(path_);
  for (size_t size = 4; size < bytes.size(); size += 1 + size / 9) {
    const Status status = LoadBytes(bytes.substr(0, size));
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << size << status;
  }
  EXPECT_EQ(LoadBytes(bytes.substr(0, bytes.size() - 4096)).code(),
            StatusCode::kCorruption);
}

TEST_F(ModelTest, OtherVersionsAndArchitecturesAreUnimplemented) {
  std::string bytes = ReadBytes(path_);
  bytes[4] = 99;
  EXPECT_EQ(LoadBytes(bytes).code(), StatusCode::kUnimplemented);
  bytes = ReadBytes(path_);
  // The value of general.architecture.
  const size_t at = bytes.find("llama");
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, 5, "mamma");
  const Status status = LoadBytes(bytes);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << status;
  EXPECT_NE(status.message().find("mamma"), std::string::npos) << status;
}

TEST_F(ModelTest, PrintsNothingAndFeedsTheSink) {
  static int lines = 0;
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  std::string bytes = ReadBytes(path_);
  bytes.replace(bytes.find("llama"), 5, "mamma");
  EXPECT_FALSE(LoadBytes(bytes).ok());
  EXPECT_OK(Model::Load({.path = path_}));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  SetEngineLogSink([](int, const char*) { ++lines; });
  EXPECT_OK(Model::Load({.path = path_}));
  SetEngineLogSink(nullptr);
  EXPECT_GT(lines, 0);
  const int before = lines;
  EXPECT_OK(Model::Load({.path = path_}));
  EXPECT_EQ(lines, before);
}

TEST_F(ModelTest, RoundTripsBytes) {
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Load({.path = path_}));
  std::string every;
  for (int b = 1; b < 256; ++b) every += static_cast<char>(b);
  for (const std::string& text :
       {std::string(), std::string("Hello, world"),
        std::string("caf\xC3\xA9 \xE6\xB0\xB4"),
        std::string("{\"a\": [1, 2]}\n\t"), std::string("<|im_start|>user")}) {
    ASSERT_OK_AND_ASSIGN(const auto tokens, model->Tokenize(text));
    EXPECT_EQ(model->Detokenize(tokens), text);
  }
  ASSERT_OK_AND_ASSIGN(const auto special, model->Tokenize("<|im_end|>"));
  EXPECT_EQ(special.size(), 1U);
  EXPECT_TRUE(model->IsEndOfGeneration(special[0]));
  ASSERT_OK_AND_ASSIGN(const auto plain,
                       model->Tokenize("<|im_end|>", {.parse_special = false}));
  EXPECT_EQ(plain.size(), 10U);
  // Invalid UTF-8 must neither crash nor throw; what it becomes is the
  // engine's.
  EXPECT_OK(model->Tokenize("\xFF\xFE\x80 ok \xC3"));
  EXPECT_OK(model->Tokenize(every));
  EXPECT_EQ(model->TokenText(-1), "");
  EXPECT_EQ(model->TokenText(model->info().vocab_size), "");
}

TEST_F(ModelTest, IsSharedByThreads) {
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Load({.path = path_}));
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back([&, i] {
      const std::string text(200, static_cast<char>('a' + i));
      texts[i] = model->Detokenize(*model->Tokenize(text));
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], std::string(200, static_cast<char>('a' + i)));
  }
}

TEST_F(ModelTest, HashIsRememberedUntilTheFileChanges) {
  const std::string cache = dir_.File("cache");
  ASSERT_OK_AND_ASSIGN(const auto first, ModelFileHash(path_, cache));
  ASSERT_OK_AND_ASSIGN(const auto direct, Sha256OfFile(path_));
  EXPECT_EQ(first, direct);
  const std::string remembered = cache + "/model_hashes.json";
  std::string text = ReadBytes(remembered);
  ASSERT_NE(text.find(ToHex(first)), std::string::npos);
  // A changed entry is believed: the file itself isn't read again.
  const Sha256Digest other = Sha256Of("other");
  text.replace(text.find(ToHex(first)), 64, ToHex(other));
  WriteBytes(remembered, text);
  EXPECT_EQ(*ModelFileHash(path_, cache), other);
  // Until size, time or inode of the file change.
  WriteBytes(path_, ReadBytes(path_) + "x");
  EXPECT_EQ(*ModelFileHash(path_, cache), *Sha256OfFile(path_));
  // A damaged cache is an empty one.
  WriteBytes(remembered, "{\"half\": ");
  EXPECT_EQ(*ModelFileHash(path_, cache), *Sha256OfFile(path_));
  EXPECT_FALSE(ModelFileHash(dir_.File("none"), cache).ok());
}

}  // namespace
}  // namespace nexus::llm
