#include "nexus/serve/session_store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "nexus/base/json.h"

namespace nexus::serve {
namespace {

constexpr int kVersion = 1;
constexpr char kIndexName[] = "sessions.json";

}  // namespace

Result<std::unique_ptr<SessionStore>> SessionStore::Open(
    FileSystem& fs, const std::string& dir) {
  NEXUS_RETURN_IF_ERROR(fs.CreateDirs(dir));
  const std::string lock_path = dir + "/lock";
  UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return IoError(lock_path + ": can't be written");
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return UnavailableError(dir +
                            ": another server keeps its sessions there; give "
                            "each its own folder");
  }
  return std::unique_ptr<SessionStore>(
      new SessionStore(fs, dir, std::move(lock)));
}

Result<SessionStoreReport> SessionStore::Save(const SessionCache& cache) {
  SessionStoreReport report;
  Json sessions = Json::array();
  // Unlike those of the run before.
  const std::string run =
      std::to_string(std::chrono::system_clock::now().time_since_epoch() /
                     std::chrono::milliseconds(1));
  for (const auto& held : cache.held()) {
    const std::string name =
        run + "-" + std::to_string(sessions.size()) + ".nxb";
    const Status status = held->session->SaveState(fs_, dir_ + "/" + name);
    if (status.code() == StatusCode::kNotFound) continue;  // it holds nothing
    if (status.code() == StatusCode::kIoError ||
        status.code() == StatusCode::kResourceExhausted) {
      RemoveOthers();
      return status;
    }
    if (!status.ok()) {
      report.notes.push_back("a session wasn't kept: " + status.message());
      continue;
    }
    sessions.push_back({{"file", name}, {"conversation", held->conversation}});
    ++report.sessions;
    report.tokens += static_cast<int64_t>(held->session->exact_count());
  }
  const Json index = {{"version", kVersion}, {"sessions", std::move(sessions)}};
  const Status written =
      WriteFileAtomically(fs_, dir_ + "/" + kIndexName, DumpJson(index) + "\n");
  // Either way what the index on the disk doesn't name is of no use.
  RemoveOthers();
  NEXUS_RETURN_IF_ERROR(written);
  return report;
}

Result<std::vector<SessionStore::SavedSession>> SessionStore::ReadIndex() {
  const std::string path = dir_ + "/" + kIndexName;
  if (!fs_.Exists(path)) return std::vector<SavedSession>();
  NEXUS_ASSIGN_OR_RETURN(const std::string text, fs_.ReadFile(path));
  NEXUS_ASSIGN_OR_RETURN(const Json json, ParseJson(text, path));
  std::vector<SavedSession> saved;
  try {
    if (json.at("version").get<int>() != kVersion) {
      return IncompatibleError(path + ": of another version of Nexus");
    }
    for (const Json& each : json.at("sessions")) {
      saved.push_back({each.at("file").get<std::string>(),
                       each.at("conversation").get<std::vector<llm::Token>>()});
      if (saved.back().file.find('/') != std::string::npos) {
        return CorruptionError(path + ": names a file outside the folder");
      }
    }
  } catch (const std::exception& e) {
    return CorruptionError(path + ": " + e.what());
  }
  return saved;
}

SessionStoreReport SessionStore::Load(const engine::Engine* engine,
                                      SessionCache* cache) {
  SessionStoreReport report;
  auto index = ReadIndex();
  if (!index.ok()) {
    report.notes.push_back(index.status().message());
    return report;
  }
  std::vector<SavedSession> saved = *std::move(index);
  // The last used stand last, in the file as in the cache.
  const size_t room = cache->room();
  if (saved.size() > room) {
    report.notes.push_back(std::to_string(saved.size() - room) +
                           " older sessions don't fit --sessions");
    saved.erase(saved.begin(), saved.end() - static_cast<std::ptrdiff_t>(room));
  }
  for (SavedSession& each : saved) {
    auto session = engine::Session::LoadState(engine, dir_ + "/" + each.file);
    if (!session.ok()) {
      report.notes.push_back(session.status().message());
      continue;
    }
    ++report.sessions;
    report.tokens += static_cast<int64_t>((*session)->exact_count());
    cache->Adopt(*std::move(session), std::move(each.conversation));
  }
  return report;
}

void SessionStore::RemoveOthers() {
  const auto names = fs_.ListDir(dir_);
  const auto saved = ReadIndex();
  if (!names.ok() || !saved.ok()) return;
  for (const std::string& name : *names) {
    const bool is_wanted = std::any_of(
        saved->begin(), saved->end(),
        [&](const SavedSession& each) { return each.file == name; });
    if (!name.ends_with(".nxb") || is_wanted) continue;
    [[maybe_unused]] const Status ignored = fs_.Remove(dir_ + "/" + name);
  }
}

}  // namespace nexus::serve
