#include "nexus/kv/sqlite_db.h"

#include <sqlite3.h>

#include <utility>

namespace nexus::kv {

void SqliteDb::Close::operator()(sqlite3* handle) const {
  sqlite3_close(handle);
}

void SqliteStatement::Finalize::operator()(sqlite3_stmt* handle) const {
  sqlite3_finalize(handle);
}

Result<SqliteDb> SqliteDb::Open(const std::string& path, int busy_timeout_ms) {
  SqliteDb db;
  db.path_ = path;
  sqlite3* handle = nullptr;
  // BlockStore locks around each connection: SQLite's own mutex is not needed.
  const int code = sqlite3_open_v2(
      path.c_str(), &handle,
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
      nullptr);
  // On most errors there is a handle all the same, and it holds the message.
  db.handle_.reset(handle);
  if (code != SQLITE_OK) return db.ErrorFor(code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, busy_timeout_ms);
  return db;
}

Status SqliteDb::ErrorFor(int code) const {
  const std::string message =
      "index " + path_ + ": " +
      (handle_ != nullptr ? sqlite3_errmsg(handle_.get())
                          : sqlite3_errstr(code));
  switch (code & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    // A table or column that isn't there, or is of another shape, shows up when
    // a statement is prepared.
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
      return CorruptionError(message);
    case SQLITE_FULL:
      return ResourceExhaustedError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return UnavailableError(message + " (held by another process)");
    default:
      return IoError(message);
  }
}

Status SqliteDb::Execute(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status::Ok() : ErrorFor(code);
}

Result<int64_t> SqliteDb::QueryInt(const char* sql) {
  NEXUS_ASSIGN_OR_RETURN(SqliteStatement statement,
                         SqliteStatement::Prepare(*this, sql));
  NEXUS_ASSIGN_OR_RETURN(const bool has_row, statement.Step());
  return has_row ? statement.Int(0) : int64_t{0};
}

Result<SqliteStatement> SqliteStatement::Prepare(const SqliteDb& db,
                                                 const char* sql) {
  SqliteStatement statement;
  statement.db_ = &db;
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v3(
      db.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  statement.handle_.reset(handle);
  if (code != SQLITE_OK) return db.ErrorFor(code);
  return statement;
}

SqliteStatement& SqliteStatement::Bind(int parameter, std::string_view text) {
  const int code =
      sqlite3_bind_text64(handle_.get(), parameter, text.data(), text.size(),
                          SQLITE_TRANSIENT, SQLITE_UTF8);
  if (code != SQLITE_OK) bind_error_ = code;
  return *this;
}

SqliteStatement& SqliteStatement::Bind(int parameter, int64_t value) {
  const int code = sqlite3_bind_int64(handle_.get(), parameter, value);
  if (code != SQLITE_OK) bind_error_ = code;
  return *this;
}

Result<bool> SqliteStatement::Step() {
  if (bind_error_ != 0) return db_->ErrorFor(std::exchange(bind_error_, 0));
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return db_->ErrorFor(code);
}

Status SqliteStatement::Run() {
  const ScopedReset reset(this);
  for (;;) {
    NEXUS_ASSIGN_OR_RETURN(const bool has_row, Step());
    if (!has_row) return Status::Ok();
  }
}

void SqliteStatement::Reset() {
  sqlite3_reset(handle_.get());
  sqlite3_clear_bindings(handle_.get());
}

std::string SqliteStatement::Text(int column) const {
  const unsigned char* text = sqlite3_column_text(handle_.get(), column);
  if (text == nullptr) return "";
  return {reinterpret_cast<const char*>(text),
          static_cast<size_t>(sqlite3_column_bytes(handle_.get(), column))};
}

int64_t SqliteStatement::Int(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

}  // namespace nexus::kv
