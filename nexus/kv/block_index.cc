#include "nexus/kv/block_index.h"

#include <cmath>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/kv/block_value.h"
#include "nexus/kv/sqlite_db.h"

namespace nexus::kv {
namespace {

// "NxKv": tells our index from any other SQLite file.
constexpr int64_t kApplicationId = 0x4E784B76;

// use_order counts the store's uses and not the clock: two uses within a second
// keep their order, and a clock that steps back does no harm. heat is
// BlockInfo::heat in 65536ths (-1: none yet, what hits and use_order imply); it
// came later and has a default, so programs that don't know it go on.
constexpr char kCreateSql[] =
    "CREATE TABLE IF NOT EXISTS blocks("
    " file TEXT PRIMARY KEY, key TEXT NOT NULL, generation INTEGER NOT NULL,"
    " kind INTEGER NOT NULL, tool TEXT NOT NULL, schema_hash TEXT NOT NULL,"
    " recipe TEXT NOT NULL, model TEXT NOT NULL, tokens INTEGER NOT NULL,"
    " contexts INTEGER NOT NULL, bytes INTEGER NOT NULL,"
    " last_use INTEGER NOT NULL DEFAULT 0, use_order INTEGER NOT NULL,"
    " hits INTEGER NOT NULL DEFAULT 0, heat INTEGER NOT NULL DEFAULT -1);"
    "CREATE INDEX IF NOT EXISTS blocks_use ON blocks(use_order);"
    "CREATE TABLE IF NOT EXISTS settings("
    " key TEXT PRIMARY KEY, value TEXT NOT NULL);";

constexpr char kUpsertSql[] =
    "INSERT INTO blocks(file, key, generation, kind, tool, schema_hash, recipe,"
    " model, tokens, contexts, bytes, use_order)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,"
    " (SELECT COALESCE(MAX(use_order), 0) + 1 FROM blocks))"
    " ON CONFLICT(file) DO UPDATE SET key = ?2, generation = ?3, kind = ?4,"
    " tool = ?5, schema_hash = ?6, recipe = ?7, model = ?8, tokens = ?9,"
    " contexts = ?10, bytes = ?11";

constexpr char kTouchSql[] =
    "UPDATE blocks SET hits = hits + 1, last_use = ?2, heat = ?3,"
    " use_order = (SELECT MAX(use_order) + 1 FROM blocks) WHERE file = ?1";

constexpr char kHeatSql[] =
    "SELECT heat, hits, use_order, (SELECT MAX(use_order) + 1 FROM blocks)"
    " FROM blocks WHERE file = ?1";

constexpr char kAddUsesSql[] =
    "UPDATE blocks SET hits = hits +"
    " COALESCE((SELECT hits FROM blocks WHERE file = ?1), 0),"
    " heat = MAX(heat, COALESCE((SELECT heat FROM blocks WHERE file = ?1), -1))"
    " WHERE file = ?2";

constexpr char kListSql[] =
    "SELECT file, key, generation, kind, tool, schema_hash, recipe, model,"
    " tokens, contexts, bytes, last_use, hits, heat, use_order FROM blocks"
    " ORDER BY use_order DESC";

Status CreateTables(SqliteDb& db) {
  // BEGIN IMMEDIATE: two processes that create the index at once queue here.
  NEXUS_RETURN_IF_ERROR(db.Execute("BEGIN IMMEDIATE"));
  Status status = db.Execute(kCreateSql);
  if (status.ok()) {
    const std::string marks =
        "PRAGMA application_id = " + std::to_string(kApplicationId) +
        "; PRAGMA user_version = " + std::to_string(BlockIndex::kSchemaVersion);
    status = db.Execute(marks.c_str());
  }
  if (status.ok()) status = db.Execute("COMMIT");
  if (!status.ok()) static_cast<void>(db.Execute("ROLLBACK"));
  return status;
}

Status CheckIdentity(SqliteDb& db) {
  NEXUS_ASSIGN_OR_RETURN(const int64_t id,
                         db.QueryInt("PRAGMA application_id"));
  NEXUS_ASSIGN_OR_RETURN(const int64_t version,
                         db.QueryInt("PRAGMA user_version"));
  NEXUS_ASSIGN_OR_RETURN(const int64_t tables,
                         db.QueryInt("SELECT COUNT(*) FROM sqlite_master"));
  if (tables == 0) return CreateTables(db);
  if (id != kApplicationId) {
    return CorruptionError("index " + db.path() +
                           ": an SQLite file of another program");
  }
  if (version > BlockIndex::kSchemaVersion) {
    return IncompatibleError("index " + db.path() +
                             ": made by a newer Nexus: version " +
                             std::to_string(version) + ", this one knows " +
                             std::to_string(BlockIndex::kSchemaVersion));
  }
  // Finds damage in pages that no statement of ours has touched yet; a few
  // milliseconds on thousands of rows. The first column says "ok".
  NEXUS_ASSIGN_OR_RETURN(SqliteStatement check,
                         SqliteStatement::Prepare(db, "PRAGMA quick_check(1)"));
  NEXUS_ASSIGN_OR_RETURN(const bool has_row, check.Step());
  if (!has_row || check.Text(0) != "ok") {
    return CorruptionError(
        "index " + db.path() + ": " +
        (has_row ? check.Text(0) : "integrity check failed"));
  }
  return Status::Ok();
}

constexpr double kHeatUnit = 65536;

double HeatFrom(int64_t stored, int64_t hits, int64_t use_order) {
  // Writing a block counts as a use: it has to prove itself first.
  return stored >= 0 ? static_cast<double>(stored) / kHeatUnit
                     : HeatOf(hits + 1, use_order);
}

// Tables of before the column. Another process may be adding it as well.
Status AddHeat(SqliteDb& db) {
  constexpr char kCountSql[] =
      "SELECT COUNT(*) FROM pragma_table_info('blocks') WHERE name = 'heat'";
  NEXUS_ASSIGN_OR_RETURN(const int64_t found, db.QueryInt(kCountSql));
  if (found > 0) return Status::Ok();
  Status status = db.Execute(
      "ALTER TABLE blocks ADD COLUMN heat INTEGER NOT NULL DEFAULT -1");
  if (status.ok()) return status;
  NEXUS_ASSIGN_OR_RETURN(const int64_t now, db.QueryInt(kCountSql));
  return now > 0 ? Status::Ok() : status;
}

BlockInfo InfoFrom(const SqliteStatement& row) {
  BlockInfo info;
  info.file_name = row.Text(0);
  info.key_hex = row.Text(1);
  info.generation = static_cast<int>(row.Int(2));
  info.kind = static_cast<BlockKind>(row.Int(3));
  info.tool_name = row.Text(4);
  info.schema_hash = row.Text(5);
  info.recipe = row.Text(6);
  info.model_sha256 = row.Text(7);
  info.token_count = static_cast<int>(row.Int(8));
  info.context_count = static_cast<int>(row.Int(9));
  info.bytes = static_cast<uint64_t>(row.Int(10));
  info.last_use_unix = row.Int(11);
  info.hits = row.Int(12);
  info.heat = HeatFrom(row.Int(13), info.hits, row.Int(14));
  return info;
}

}  // namespace

struct BlockIndex::Impl {
  SqliteDb db;  // outlives the statements: declared first
  SqliteStatement upsert;
  SqliteStatement touch;
  SqliteStatement heat;
  SqliteStatement erase;
  SqliteStatement add_uses;
  SqliteStatement list;
  SqliteStatement total;
  SqliteStatement get_setting;
  SqliteStatement put_setting;
};

BlockIndex::BlockIndex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BlockIndex::~BlockIndex() = default;

Result<std::unique_ptr<BlockIndex>> BlockIndex::Open(const std::string& path,
                                                     int busy_timeout_ms) {
  auto impl = std::make_unique<Impl>();
  NEXUS_ASSIGN_OR_RETURN(impl->db, SqliteDb::Open(path, busy_timeout_ms));
  NEXUS_RETURN_IF_ERROR(
      impl->db.Execute("PRAGMA journal_mode = WAL;"
                       "PRAGMA synchronous = NORMAL"));
  NEXUS_RETURN_IF_ERROR(CheckIdentity(impl->db));
  NEXUS_RETURN_IF_ERROR(AddHeat(impl->db));
  const struct {
    SqliteStatement* statement;
    const char* sql;
  } statements[] = {
      {&impl->upsert, kUpsertSql},
      {&impl->touch, kTouchSql},
      {&impl->heat, kHeatSql},
      {&impl->erase, "DELETE FROM blocks WHERE file = ?1"},
      {&impl->add_uses, kAddUsesSql},
      {&impl->list, kListSql},
      {&impl->total, "SELECT COALESCE(SUM(bytes), 0) FROM blocks"},
      {&impl->get_setting, "SELECT value FROM settings WHERE key = ?1"},
      {&impl->put_setting,
       "INSERT INTO settings(key, value) VALUES(?1, ?2)"
       " ON CONFLICT(key) DO UPDATE SET value = ?2"},
  };
  for (const auto& entry : statements) {
    NEXUS_ASSIGN_OR_RETURN(*entry.statement,
                           SqliteStatement::Prepare(impl->db, entry.sql));
  }
  return std::unique_ptr<BlockIndex>(new BlockIndex(std::move(impl)));
}

Status BlockIndex::Upsert(const BlockInfo& info) {
  impl_->upsert.Bind(1, info.file_name)
      .Bind(2, info.key_hex)
      .Bind(3, int64_t{info.generation})
      .Bind(4, static_cast<int64_t>(info.kind))
      .Bind(5, info.tool_name)
      .Bind(6, info.schema_hash)
      .Bind(7, info.recipe)
      .Bind(8, info.model_sha256)
      .Bind(9, int64_t{info.token_count})
      .Bind(10, int64_t{info.context_count})
      .Bind(11, static_cast<int64_t>(info.bytes));
  return impl_->upsert.Run();
}

Status BlockIndex::Touch(const std::string& file_name) {
  // Two processes that count at once may lose one use: it costs nothing but a
  // slightly worse eviction.
  int64_t heat = -1;
  {
    const ScopedReset reset(&impl_->heat);
    impl_->heat.Bind(1, file_name);
    NEXUS_ASSIGN_OR_RETURN(const bool has_row, impl_->heat.Step());
    if (!has_row) return Status::Ok();
    const double before =
        HeatFrom(impl_->heat.Int(0), impl_->heat.Int(1), impl_->heat.Int(2));
    heat = std::llround(HeatAfterUse(before, impl_->heat.Int(3)) * kHeatUnit);
  }
  impl_->touch.Bind(1, file_name).Bind(2, UnixSeconds()).Bind(3, heat);
  return impl_->touch.Run();
}

Status BlockIndex::Erase(const std::string& file_name) {
  impl_->erase.Bind(1, file_name);
  return impl_->erase.Run();
}

Status BlockIndex::AddUses(const std::string& from, const std::string& to) {
  impl_->add_uses.Bind(1, from).Bind(2, to);
  return impl_->add_uses.Run();
}

Result<std::vector<BlockInfo>> BlockIndex::List() {
  const ScopedReset reset(&impl_->list);
  std::vector<BlockInfo> infos;
  for (;;) {
    NEXUS_ASSIGN_OR_RETURN(const bool has_row, impl_->list.Step());
    if (!has_row) return infos;
    infos.push_back(InfoFrom(impl_->list));
  }
}

Result<uint64_t> BlockIndex::TotalBytes() {
  const ScopedReset reset(&impl_->total);
  NEXUS_ASSIGN_OR_RETURN(const bool has_row, impl_->total.Step());
  return has_row ? static_cast<uint64_t>(impl_->total.Int(0)) : uint64_t{0};
}

Result<std::optional<std::string>> BlockIndex::GetSetting(
    const std::string& key) {
  const ScopedReset reset(&impl_->get_setting);
  impl_->get_setting.Bind(1, key);
  NEXUS_ASSIGN_OR_RETURN(const bool has_row, impl_->get_setting.Step());
  if (!has_row) return std::optional<std::string>();
  return std::optional<std::string>(impl_->get_setting.Text(0));
}

Status BlockIndex::PutSetting(const std::string& key, const std::string& text) {
  impl_->put_setting.Bind(1, key).Bind(2, text);
  return impl_->put_setting.Run();
}

}  // namespace nexus::kv
