// nexus inspect: what a block file holds, what the store holds, and the frame
// that a model's schemas are shown in.
#include <algorithm>
#include <cstdio>

#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/terminal.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/block_reader.h"
#include "nexus/pull/model_catalog.h"
#include "nexus/serve/inspect_api.h"

namespace nexus::cli {
namespace {

struct InspectFlags {
  std::string block;
  bool frame = false;
};

// Whether further samples can be folded in, and what a new one weighs.
std::string LearningText(const kv::KvBlock& block) {
  if (block.kind() != kv::BlockKind::kSplice) {
    return "no: exact cells of one conversation";
  }
  if (block.storage().k == kv::RowStorage::kQ4) {
    return "no: 4-bit keys are too coarse to take in samples";
  }
  const int samples = block.metadata().context_count;
  if (samples > 1 && block.VM2(0).empty() && block.sensitivity().empty()) {
    return "no: the file doesn't say how its samples varied";
  }
  return "yes: the next sample weighs 1/" +
         std::to_string(std::min(samples + 1, kv::kSampleWeightCap));
}

Json BlockJson(const kv::KvBlock& block) {
  const kv::BlockMetadata& metadata = block.metadata();
  Json print = Json::object();
  for (const kv::FingerprintField& field : kv::kFingerprintFields) {
    print[std::string(field.name)] = metadata.fingerprint.*field.member;
  }
  uint64_t row_bytes = 0;
  for (size_t layer = 0; layer < block.layers().size(); ++layer) {
    row_bytes += block.KBytes(layer) + block.VBytes(layer);
  }
  row_bytes /= static_cast<uint64_t>(block.token_count());
  Json object = {{"path", block.path()},
                 {"format_version", block.format_version()},
                 {"kind", std::string(kv::BlockKindName(block.kind()))},
                 {"tool", metadata.tool_name},
                 {"schema_hash", metadata.schema_hash},
                 {"recipe", metadata.recipe},
                 {"generation", metadata.generation},
                 {"samples", metadata.context_count},
                 {"learning", LearningText(block)},
                 {"position", metadata.position},
                 {"tokens", block.token_count()},
                 {"layers", block.layers().size()},
                 {"storage", kv::BlockStorageName(block.storage())},
                 {"bytes", block.file_bytes()},
                 {"row_bytes_per_token", row_bytes},
                 {"fingerprint", std::move(print)}};
  const std::span<const float> sensitivity = block.sensitivity();
  if (!sensitivity.empty()) {
    std::vector<float> sorted(sensitivity.begin(), sensitivity.end());
    std::sort(sorted.begin(), sorted.end());
    object["sensitivity"] = {{"min", sorted.front()},
                             {"median", sorted[sorted.size() / 2]},
                             {"max", sorted.back()}};
  }
  return object;
}

// A row of shades: where in the block the sensitive tokens stand.
std::string SensitivityStrip(std::span<const float> sensitivity) {
  static constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  constexpr size_t kCells = 64;
  const size_t cells = std::min(kCells, sensitivity.size());
  std::vector<float> means(cells, 0);
  float largest = 0;
  for (size_t cell = 0; cell < cells; ++cell) {
    const size_t begin = cell * sensitivity.size() / cells;
    const size_t end = (cell + 1) * sensitivity.size() / cells;
    for (size_t i = begin; i < end; ++i) means[cell] += sensitivity[i];
    means[cell] /= static_cast<float>(end - begin);
    largest = std::max(largest, means[cell]);
  }
  std::string strip;
  for (const float mean : means) {
    const float share = largest > 0 ? mean / largest : 0;
    strip += kShades[std::min<size_t>(4, static_cast<size_t>(share * 5))];
  }
  return strip;
}

int InspectBlock(const GlobalOptions& globals, const std::string& path) {
  auto block = kv::KvBlock::Open(path);
  if (!block.ok()) return Fail(block.status());
  Json object = BlockJson(**block);
  if (globals.json) {
    object["contexts"] = object["samples"];  // its name in the first version
    PrintJson(object);
    return kExitOk;
  }
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      std::printf("%s\n", Styled(key, Style::kDim).c_str());
      for (const auto& [name, inner] : value.items()) {
        std::printf("  %-22s %s\n", name.c_str(),
                    inner.is_string() ? inner.get<std::string>().c_str()
                                      : DumpJson(inner).c_str());
      }
    } else {
      std::printf("%-24s %s\n", key.c_str(),
                  value.is_string() ? value.get<std::string>().c_str()
                                    : DumpJson(value).c_str());
    }
  }
  if (!(*block)->sensitivity().empty()) {
    std::printf("%-24s |%s|\n", "  over the tokens",
                SensitivityStrip((*block)->sensitivity()).c_str());
  }
  std::printf("all checksums are right\n");
  return kExitOk;
}

int ListStore(const GlobalOptions& globals) {
  auto store = kv::BlockStore::Open({.dir = globals.store.empty()
                                                ? engine::DefaultStoreDir()
                                                : globals.store});
  if (!store.ok()) return Fail(store.status());
  if (globals.json) {
    const auto json = serve::StoreJson(**store);
    if (!json.ok()) return Fail(json.status());
    PrintJson(*json);
    return kExitOk;
  }
  auto blocks = (*store)->List();
  if (!blocks.ok()) return Fail(blocks.status());
  Table table({"tool", "kind", "tokens", "samples", "generation", "size",
               "uses", "file"});
  for (const kv::BlockInfo& info : *blocks) {
    table.AddRow({info.tool_name.empty() ? "-" : info.tool_name,
                  std::string(kv::BlockKindName(info.kind)),
                  FormatCount(info.token_count),
                  FormatCount(info.context_count), FormatCount(info.generation),
                  FormatBytes(info.bytes), FormatCount(info.hits),
                  info.file_name});
  }
  if (blocks->empty()) {
    std::printf("%s holds no blocks; `nexus compile` makes them\n",
                (*store)->dir().c_str());
    return kExitOk;
  }
  std::printf(
      "%s\n%zu blocks, %s of at most %s in %s\n", table.Render().c_str(),
      blocks->size(), FormatBytes((*store)->TotalBytes()).c_str(),
      FormatBytes((*store)->max_bytes()).c_str(), (*store)->dir().c_str());
  return kExitOk;
}

int ShowFrame(const GlobalOptions& globals) {
  auto path = pull::ResolveModel(globals.model);
  if (!path.ok()) return Fail(path.status());
  auto model = llm::Model::Load({.path = *path, .vocab_only = true});
  if (!model.ok()) return Fail(model.status());
  const schema::SchemaFrame frame = schema::FrameFor(
      (*model)->info().chat_template, (*model)->info().architecture);
  schema::ToolSchema tool;
  tool.name = "get_weather";
  tool.description = "Weather at a place.";
  tool.parameters = {{"type", "object"},
                     {"properties", {{"city", {{"type", "string"}}}}},
                     {"required", Json::array({"city"})}};
  const std::string text =
      frame.head_prefix + "SYSTEM PROMPT" + frame.head_suffix +
      schema::RenderBlock(frame, {&tool, 1}) + frame.user_prefix + "QUESTION" +
      frame.user_suffix + schema::RenderCallPreamble(frame, tool.name) +
      "{\"city\": \"Seoul\"}" + frame.call_suffix;
  if (globals.json) {
    PrintJson({{"model", (*model)->info().name},
               {"family", frame.family},
               {"reason", frame.reason},
               {"example", text}});
  } else {
    std::printf("family %s: %s\n\n%s\n", frame.family.c_str(),
                frame.reason.c_str(), text.c_str());
  }
  return kExitOk;
}

}  // namespace

void AddInspectCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "inspect",
      "Show a block file, the store (without a file), or a model's "
      "frame");
  auto flags = std::make_shared<InspectFlags>();
  command->add_option("block", flags->block, "A block file (*.nxb)");
  command->add_flag("--frame", flags->frame,
                    "The text around a schema for --model");
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback([=] {
    *action = [=] {
      if (flags->frame) return ShowFrame(*globals);
      return flags->block.empty() ? ListStore(*globals)
                                  : InspectBlock(*globals, flags->block);
    };
  });
}

}  // namespace nexus::cli
