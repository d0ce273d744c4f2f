// What `nexus eval args` and `nexus eval e2e` print alike.
#include <algorithm>
#include <cstdio>

#include "nexus/cli/eval_commands.h"
#include "nexus/cli/terminal.h"

namespace nexus::cli {

std::vector<eval::ArgumentForm> FormsOf(const std::vector<std::string>& modes) {
  std::vector<eval::ArgumentForm> forms;
  for (const eval::ArgumentForm form : eval::kArgumentForms) {
    const bool wanted =
        std::any_of(modes.begin(), modes.end(), [&](const std::string& mode) {
          return mode == "all" || mode == eval::ArgumentFormName(form);
        });
    if (wanted) forms.push_back(form);
  }
  return forms;
}

void AddModeFlag(CLI::App* command, std::vector<std::string>* modes) {
  command
      ->add_option("--mode", *modes,
                   "What the prompt has of the tool: ir, schema (by the "
                   "session's tiers), schema-text; several with commas, or all")
      ->delimiter(',')
      ->check(CLI::IsMember({"ir", "schema", "schema-text", "all"}))
      ->capture_default_str();
}

std::string ProgressNote(const engine::ArgumentStudyProgress& progress,
                         const char* what,
                         std::chrono::steady_clock::time_point start) {
  std::string note = FormatCount(progress.done) + " of " +
                     FormatCount(progress.total) + " " + what;
  if (progress.generated == 0) return note;
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  const double left =
      seconds / progress.generated * (progress.total - progress.done);
  return note + ", " +
         (left < 120 ? eval::FormatNumber("%.0f s", left)
                     : eval::FormatNumber("%.0f min", left / 60)) +
         " left";
}

void NoteTrials(const Status& status, const std::string& trials) {
  if (status.code() != StatusCode::kCancelled || trials.empty()) return;
  Note("what was generated is in " + trials +
       "; the same command goes on from there");
}

void AddMarkdownFlag(CLI::App* command, EvalOutput* output) {
  command->add_flag("--markdown", output->markdown, "Print tables in Markdown");
}

void PrintRows(const std::string& title, const eval::TableRows& rows,
               const EvalOutput& output) {
  if (rows.size() < 2) return;
  // Markdown is a table on a terminal as well.
  const std::string heading =
      output.markdown ? "## " + title : Styled(title, Style::kBold);
  std::printf("%s\n\n%s", heading.c_str(), eval::MarkdownTable(rows).c_str());
}

void PrintFailures(const std::vector<eval::ArgumentFailure>& failures,
                   const EvalOutput& output) {
  if (failures.empty()) return;
  if (output.markdown) std::printf("## Failures\n\n");
  for (const eval::ArgumentFailure& failure : failures) {
    std::string why;
    for (const std::string& one : failure.why) {
      why += (why.empty() ? "" : "; ") + one;
    }
    const auto line = [&](const char* name, const std::string& text) {
      const std::string shown = Shorten(OneLine(text), 400);
      std::printf(output.markdown ? "  - %s: `%s`\n" : "  %-9s %s\n", name,
                  shown.c_str());
    };
    std::printf("%s%s, %s\n", output.markdown ? "- " : "",
                OneLine(failure.query_id).c_str(),
                std::string(eval::ArgumentFormName(failure.form)).c_str());
    line("query", failure.query);
    line("tool", failure.tool);
    line("expected", failure.expected);
    line("got", failure.got);
    line("why", why);
  }
}

void NoteLeftOut(const eval::ArgumentTasks& tasks) {
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(tasks.notes.size(), kShown); ++i) {
    Note(OneLine(tasks.notes[i]));
  }
  if (tasks.notes.size() > kShown) {
    Note("and " +
         FormatCount(static_cast<int64_t>(tasks.notes.size() - kShown)) +
         " more labels that the registry lacks");
  }
  const int left_out = tasks.without_calls + tasks.several_calls +
                       tasks.unknown_tools + tasks.foreign_arguments +
                       tasks.nothing_accepted;
  if (left_out == 0) return;
  Note(FormatCount(left_out) + " queries left out: " +
       FormatCount(tasks.without_calls) + " without \"calls\", " +
       FormatCount(tasks.several_calls) + " with several, " +
       FormatCount(tasks.unknown_tools + tasks.foreign_arguments) +
       " with labels that the registry lacks, " +
       FormatCount(tasks.nothing_accepted) + " that accept nothing");
}

}  // namespace nexus::cli
