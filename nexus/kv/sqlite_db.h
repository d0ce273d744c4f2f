// SqliteDb, SqliteStatement: owners of SQLite's handles, with Status for its
// codes. Private to nexus/kv.
#ifndef NEXUS_KV_SQLITE_DB_H_
#define NEXUS_KV_SQLITE_DB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nexus/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace nexus::kv {

// Move-only, thread-compatible. Must outlive its statements.
class SqliteDb {
 public:
  // Creates the file when it isn't there.
  static Result<SqliteDb> Open(const std::string& path, int busy_timeout_ms);

  sqlite3* handle() const { return handle_.get(); }
  const std::string& path() const { return path_; }

  // Statements without results.
  Status Execute(const char* sql);
  // First column of the first row.
  Result<int64_t> QueryInt(const char* sql);

  // What SQLite's `code` means: kCorruption for damaged or foreign files,
  // kResourceExhausted for a full disk, kUnavailable when another process holds
  // the lock for longer than the timeout, kIoError else.
  Status ErrorFor(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::unique_ptr<sqlite3, Close> handle_;
  std::string path_;
};

// A prepared statement, reused: bind, step, reset.
class SqliteStatement {
 public:
  static Result<SqliteStatement> Prepare(const SqliteDb& db, const char* sql);

  // Parameters count from 1. The text is copied.
  SqliteStatement& Bind(int parameter, std::string_view text);
  SqliteStatement& Bind(int parameter, int64_t value);

  // true: a row stands ready; false: done. Errors of Bind show here.
  Result<bool> Step();
  // Steps through to the end, dropping rows, and resets.
  Status Run();
  void Reset();

  // Columns count from 0. Valid until the next Step or Reset.
  std::string Text(int column) const;
  int64_t Int(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const;
  };
  const SqliteDb* db_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bind_error_ = 0;
};

// Resets a statement at the end of a scope: an unreset SELECT holds a read lock
// that keeps the WAL from being truncated.
class ScopedReset {
 public:
  explicit ScopedReset(SqliteStatement* statement) : statement_(statement) {}
  ~ScopedReset() { statement_->Reset(); }
  ScopedReset(const ScopedReset&) = delete;
  ScopedReset& operator=(const ScopedReset&) = delete;

 private:
  SqliteStatement* statement_;
};

}  // namespace nexus::kv

#endif  // NEXUS_KV_SQLITE_DB_H_
