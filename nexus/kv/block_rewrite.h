// RewriteBlock: a block's contents in a new file, its rows stored in another
// way.
#ifndef NEXUS_KV_BLOCK_REWRITE_H_
#define NEXUS_KV_BLOCK_REWRITE_H_

#include <string>

#include "nexus/base/file_system.h"
#include "nexus/base/result.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/block_storage.h"

namespace nexus::kv {

// Errors as WriteBlockFile's. Bits that the old storage has dropped stay
// dropped.
Status RewriteBlock(FileSystem& fs, const KvBlock& block,
                    const BlockStorage& storage, const std::string& path);

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_REWRITE_H_
