#include "nexus/kv/block_rewrite.h"

#include <vector>

#include "nexus/kv/block_writer.h"
#include "nexus/kv/row_convert.h"

namespace nexus::kv {

Status RewriteBlock(FileSystem& fs, const KvBlock& block,
                    const BlockStorage& storage, const std::string& path) {
  const auto tokens = static_cast<size_t>(block.token_count());
  std::vector<std::vector<uint8_t>> k;
  std::vector<std::vector<uint8_t>> v;
  std::vector<std::vector<float>> v_m2;
  std::vector<float> rows;
  for (size_t layer = 0; layer < block.layers().size(); ++layer) {
    const llm::KvLayerShape& shape = block.layers()[layer];
    rows.resize(tokens * shape.k_elements);
    block.ReadK(layer, 0, block.token_count(), rows.data());
    k.push_back(RowsFromF32(shape.k_type, rows));
    rows.resize(tokens * shape.v_elements);
    block.ReadV(layer, 0, block.token_count(), rows.data());
    v.push_back(RowsFromF32(shape.v_type, rows));
    const std::span<const float> m2 = block.VM2(layer);
    if (!m2.empty()) v_m2.emplace_back(m2.begin(), m2.end());
  }
  BlockContents contents;
  contents.metadata = block.metadata();
  contents.tokens = block.tokens();
  contents.layers = block.layers();
  contents.k = k;
  contents.v = v;
  contents.sensitivity = block.sensitivity();
  contents.v_m2 = v_m2;
  contents.storage = storage;
  return WriteBlockFile(fs, path, contents).status();
}

}  // namespace nexus::kv
