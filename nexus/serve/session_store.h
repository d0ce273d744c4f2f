// SessionStore: a folder that keeps the sessions of a server over its restart.
//
//   sessions.json      what each session's last conversation was, and its file
//   RUN-N.nxb          its exact cells (engine/session.h, SaveState)
//   lock               held by the server that uses the folder
//
// Conversations stand in it as tokens and cells, readable by whoever can read
// the files: they are made for their owner alone.
#ifndef NEXUS_SERVE_SESSION_STORE_H_
#define NEXUS_SERVE_SESSION_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/result.h"
#include "nexus/base/unique_fd.h"
#include "nexus/serve/session_cache.h"

namespace nexus::serve {

struct SessionStoreReport {
  int sessions = 0;
  int64_t tokens = 0;
  // Why others were left out, a line each.
  std::vector<std::string> notes;
};

// Thread-compatible.
class SessionStore {
 public:
  // Makes the folder (owner-only). kUnavailable: another server uses it;
  // kIoError. `fs` must outlive the store.
  static Result<std::unique_ptr<SessionStore>> Open(FileSystem& fs,
                                                    const std::string& dir);

  // Writes what the cache holds, the old files go when the new ones are in
  // place. A session that can't be saved is noted. An error (a full disk)
  // leaves what was there before.
  Result<SessionStoreReport> Save(const SessionCache& cache);

  // Puts the saved sessions into an empty cache, as many as it may hold, those
  // used last first. What can't be read, or is of another model, is noted and
  // begins anew; it is no error.
  SessionStoreReport Load(const engine::Engine* engine, SessionCache* cache);

 private:
  SessionStore(FileSystem& fs, std::string dir, UniqueFd lock)
      : fs_(fs), dir_(std::move(dir)), lock_(std::move(lock)) {}

  struct SavedSession {
    std::string file;
    std::vector<llm::Token> conversation;
  };
  Result<std::vector<SavedSession>> ReadIndex();
  // Files of sessions that the index doesn't name.
  void RemoveOthers();

  FileSystem& fs_;
  const std::string dir_;
  const UniqueFd lock_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_SESSION_STORE_H_
