// `cubfc report`: its options, and the steps from a file to a report.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/recordings/open_recording.h"
#include "cli/recordings/several.h"
#include "cli/recordings/tensors.h"
#include "cli/report/figures.h"
#include "cli/report/forms.h"
#include "cli/report/history.h"
#include "cli/report/lines.h"
#include "cli/report/output.h"
#include "cli/report/wording.h"
#include "cli/symbols/name_frames.h"

namespace cubfc::cli {
namespace {

struct ReportOptions {
  std::vector<std::string> files;
  std::string output;
  std::string format = "html";
  bool text = false;
  bool segments = false;
};

// "run.html" for "run.cubfc"; a text goes to the standard output.
std::string default_output(const ReportOptions& options) {
  if (options.format == "text") {
    return "-";
  }
  const std::map<std::string, std::string> endings{
      {"html", ".html"}, {"json", ".json"}, {"rmm", ".csv"}, {"perfetto", ".perfetto-trace"}};
  std::filesystem::path path = options.files.front();
  path.replace_extension(endings.at(options.format));
  // The report must not overwrite its input: of the log "run.csv", it is "run.report.csv".
  return std::ranges::find(options.files, path.string()) != options.files.end()
             ? path.replace_extension(".report" + path.extension().string()).string()
             : path.string();
}

bool bold_is_wanted(const std::string& output) {
  const char* const no_color = std::getenv("NO_COLOR");
  return output == "-" && ::isatty(STDOUT_FILENO) == 1 &&
         (no_color == nullptr || *no_color == '\0');
}

void write_report(const ReportOptions& options, const std::string& path, const report::Told& told) {
  report::Output output{path, options.files};
  if (options.format == "html") {
    report::write_page(told, output);
  } else if (options.format == "json") {
    report::write_json(told, output);
  } else if (options.format == "perfetto") {
    report::write_perfetto(told, output);
  } else if (options.format == "rmm") {
    const std::uint64_t left_out = report::write_rmm(told, output);
    if (left_out > 0) {
      std::fprintf(
          stderr,
          "cubfc: left out %s blocks of arrays and physical memory, which RMM does not have\n",
          report::count_text(left_out).c_str());
    }
  } else {
    output.write(report::text_of(told, bold_is_wanted(path)));
  }
  output.finish();
}

// Tells where the report is and how to open it: a person at a terminal, and everybody who has not
// named the file.
void tell_where(const ReportOptions& options, const std::string& path) {
  if (path != "-" && (options.output.empty() || ::isatty(STDERR_FILENO) == 1)) {
    std::error_code ignored;
    const auto size = std::filesystem::file_size(path, ignored);
    const char* const hint = options.format == "html"       ? "; open it in a browser"
                             : options.format == "perfetto" ? "; open it at ui.perfetto.dev"
                                                            : "";
    std::fprintf(stderr, "cubfc: %s (%s)%s\n", report::printable(path).c_str(),
                 report::bytes_text(ignored ? 0 : size).c_str(), hint);
  }
}

// Tells which files' functions have no names, and why.
void tell_unnamed(const std::vector<std::string>& problems) {
  constexpr std::size_t kMostShown = 5;
  for (std::size_t n = 0; n < std::min(problems.size(), kMostShown); ++n) {
    std::fprintf(stderr, "cubfc: %s; its functions are not named\n",
                 report::printable(problems[n]).c_str());
  }
  if (problems.size() > kMostShown) {
    std::fprintf(stderr, "cubfc: nor are those of %s more files\n",
                 report::count_text(problems.size() - kMostShown).c_str());
  }
}

recordings::Recording read_recordings(const ReportOptions& options, ProgressLine& progress) {
  std::vector<recordings::Recording> all;
  for (const std::string& file : options.files) {
    progress.show("cubfc: reading " + report::printable(file));
    recordings::Recording& recording = all.emplace_back(recordings::open_recording(file));
    if (options.segments) {
      recordings::leave_out_tensors(recording);
    } else {
      recordings::show_tensors(recording);
    }
  }
  return recordings::merged(std::move(all));
}

void make_report(ReportOptions options) {
  if (options.text) {
    options.format = "text";
  }
  const std::string path = options.output.empty() ? default_output(options) : options.output;
  try {
    std::vector<std::string> unnamed;
    {
      ProgressLine progress;
      recordings::Recording recording = read_recordings(options, progress);
      if (recording.events.size() >= std::numeric_limits<std::uint32_t>::max()) {
        throw Failure{recording.path +
                      ": has more events than a report can tell of (4,294,967,294)"};
      }
      unnamed = symbols::name_frames(recording, [&](const std::string& object) {
        progress.show("cubfc: naming the functions of " + report::printable(object));
      });
      progress.show("cubfc: going through " + report::count_text(recording.events.size()) +
                    " events");
      const report::History history = report::history_of(recording);
      const report::Figures figures = report::figures_of(recording, history);
      const report::CodeLines lines = report::lines_of(recording, history, figures);
      progress.show("cubfc: writing " + report::printable(path));
      write_report(options, path, {recording, history, figures, lines});
    }
    tell_unnamed(unnamed);
    tell_where(options, path);
  } catch (const recordings::BadRecording& error) {
    throw Failure{error.what()};
  } catch (const report::CannotWrite& error) {
    throw Failure{error.what()};
  }
}

}  // namespace

void add_report(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "report", "Shows what a recording says: the peak, who held it, why something did not fit.");
  const auto options = std::make_shared<ReportOptions>();
  command
      ->add_option("FILE", options->files,
                   "A trace (CUBFC_TRACE), a log of RMM's logging adaptor, or a memory snapshot of "
                   "PyTorch; of "
                   "several, as a job's processes make them, one report is made")
      ->type_name("")
      ->required();
  command
      ->add_option("-o,--output", options->output,
                   "Where to; - is the standard output. By default beside FILE, with the ending of "
                   "the format; a text goes to the standard output")
      ->type_name("FILE");
  command
      ->add_option(
          "--format", options->format,
          "html: one page that opens offline; text; json: for scripts; rmm: a log for RMM's "
          "tools; perfetto: for ui.perfetto.dev; accepted: html, text, json, rmm or perfetto")
      ->type_name("FORMAT")
      ->check(CLI::Validator(CLI::IsMember({"html", "text", "json", "rmm", "perfetto"}))
                  .description(""))
      ->capture_default_str();
  command->add_flag("--text", options->text, "The same as --format text")->excludes("--format");
  command->add_flag("--segments", options->segments,
                    "Of a trace that has PyTorch's tensors (CUBFC_TRACE_STACKS): the segments of "
                    "its cache in their place, as the device sees them");
  command->footer(
      "Example:\n"
      "  CUBFC_TRACE=run.cubfc LD_PRELOAD=libcubfc.so ./app\n"
      "  cubfc report run.cubfc -o report.html\n"
      "  cubfc report run.cubfc --text\n"
      "  cubfc report rank*.cubfc -o job.html\n"
      "\n"
      "Exit status: 0 done; 1 a file cannot be read or written; 2 the command line is wrong.");
  command->callback([options] { make_report(*options); });
}

}  // namespace cubfc::cli
