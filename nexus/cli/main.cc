// nexus: the command line.
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <string_view>

#include "nexus/cli/app.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/log.h"
#include "nexus/cli/terminal.h"
#include "nexus/llm/model.h"

namespace nexus::cli {
namespace {

// The engine's lines come in pieces; their ends are its own.
void EngineLog(int, const char* text) {
  if (!LogIsJson()) {
    std::fputs(text, stderr);
    return;
  }
  std::string_view line(text);
  while (line.ends_with('\n')) line.remove_suffix(1);
  if (!line.empty()) {
    Log(LogLevel::kDebug, line, {{"source", "engine"}});
  }
}

// One line, as every other error; CLI11's own say it in two and don't name the
// configuration file.
int FailParse(const CLI::App& app, const CLI::ParseError& error) {
  std::string what = error.what();
  for (char& c : what) c = c == '\n' ? ' ' : c;
  if (dynamic_cast<const CLI::ConfigError*>(&error) != nullptr ||
      dynamic_cast<const CLI::FileError*>(&error) != nullptr) {
    what =
        "config file " + app.get_config_ptr()->as<std::string>() + ": " + what;
  }
  Note(what +
       " (`nexus --help` or `nexus COMMAND --help` lists what there is)");
  return kExitUsage;
}

// A result that could not be written is a failure, whatever was computed.
int FlushOutput(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // A reader that left (`nexus tools | head`) has seen what it wanted.
  if (errno == EPIPE) return code;
  Note("standard output: can't be written, the result is incomplete");
  return code == kExitOk ? kExitSystem : code;
}

#ifdef NEXUS_PORTABLE_X86
// A package is built for processors of the last ten years; on an older one the
// engine would end with an illegal instruction and no word.
bool ProcessorFits() {
  if (__builtin_cpu_supports("x86-64-v3") != 0) return true;
  Note(
      "this build needs a processor with AVX2, FMA, F16C and BMI2 "
      "(x86-64-v3), and this one hasn't them all; build Nexus here with "
      "scripts/build");
  return false;
}
#else
bool ProcessorFits() { return true; }
#endif

int Main(int argc, char** argv) {
  if (!ProcessorFits()) return kExitInternal;
  InstallInterruptHandler();
  Action action;
  ProgramFlags flags;
  const std::unique_ptr<CLI::App> app = BuildApp(&action, &flags);
  try {
    app->parse(argc, argv);
  } catch (const CLI::Success& help) {
    return FlushOutput(app->exit(help));
  } catch (const CLI::ParseError& error) {
    return FailParse(*app, error);
  }
  if (!action) {
    std::printf("%s", app->help().c_str());
    return FlushOutput(kExitUsage);
  }
  LogOptions log = {
      .level = ParseLogLevel(flags.log_level).value_or(LogLevel::kInfo),
      .json = flags.log_format == "json"};
  if (flags.verbose) log.level = LogLevel::kDebug;
  ConfigureLog(log);
  if (log.level == LogLevel::kDebug) llm::SetEngineLogSink(&EngineLog);
  try {
    return FlushOutput(action());
  } catch (const std::exception& error) {
    Note(std::string("internal error: ") + error.what() +
         "; please report it with the command line");
    return kExitInternal;
  }
}

}  // namespace
}  // namespace nexus::cli

int main(int argc, char** argv) { return nexus::cli::Main(argc, argv); }
