// `cubfc fit`: how much GPU memory a program needs, and on which GPUs it fits, without a GPU.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/fit/answer.h"
#include "cli/fit/search.h"
#include "cli/fit/tell.h"
#include "cli/json_text.h"
#include "cli/numbers.h"
#include "cli/program_words.h"
#include "cli/progress.h"
#include "cli/recordings/recording.h"
#include "cli/report/output.h"
#include "cli/run/library.h"
#include "cli/run/program.h"
#include "cli/run/settings.h"
#include "cli/run/software_gpu.h"
#include "cli/run/temporary_folder.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kDoesNotFit = 3;

constexpr const char* kAbout =
    "Runs an unmodified PyTorch program on a GPU that is software, and says how much memory it "
    "needs at its peak, which lines hold it, and on which GPUs it fits. No GPU is needed; kernels "
    "compute nothing, but what they would need is asked for as on a GPU.";

constexpr const char* kFooter = R"(
The program ends when its peak has not risen over --steps steps of its optimizers, or
when it ends by itself, or after --seconds. Without --gpu it runs once as on one GPU of
each generation, and all usual ones are shown; with --gpu, as on each that is named, with
its memory, and where that does not do once more with as much as the program wants.
"no cache", "cubfc bfc" and "cubfc vmm" are with PYTORCH_NO_CUDA_MEMORY_CACHING=1.

Values that kernels would compute are followed on the host where few numbers are
concerned. Where the answer rests on what is not known, that is said, with the line, and
"needs" is a range where cuDNN or NCCL take memory for themselves. "perhaps" fits with the
least of it, not with the most.

Exit status: 0 it fits on each GPU that was named, 1 the program failed or cannot run
so, 2 the command line is wrong, 3 on one of them it does not fit with PyTorch's cache, or
perhaps not.

Examples:
  cubfc fit -- python3 train.py
  cubfc fit --gpu 4090 --gpu A100-80GB:2g.20gb --gpu 48GiB -- python3 train.py --batch 8
  cubfc fit --gpu 4090 --search batch=1..256 -- python3 train.py --batch {batch}
  cubfc fit --gpu H100 --random-weights --page fit.html -- python3 generate.py
)";

struct FitWords {
  std::vector<std::string> program;
  std::vector<std::string> gpus;
  std::string count = "1";
  std::string steps = "8";
  std::string seconds = "120";
  std::string trace;
  std::string page;
  std::string learn;
  std::string search;
  std::string convolutions;
  bool json = false;
  bool random_weights = false;
  bool list = false;
  bool shows_output = false;
};

fit::Program program_of(const FitWords& words) {
  fit::Program program;
  program.words = words.program;
  program.library = find_library(std::nullopt);
  const std::optional<std::string> software_gpu = find_software_gpu(program.library);
  if (!software_gpu || !fs::exists(fs::path(*software_gpu) / "libcubfc_fit.so")) {
    throw Failure{
        "fit: the software GPU is not installed. It is a package of its own: `pip install "
        "'cubfc[fit]'`, or `apt install cubfc-software-gpu`"};
  }
  program.software_gpu = *software_gpu;
  const FoundProgram found = find_program(words.program.front(), search_path());
  if (found.path.empty()) {
    throw Failure{"fit: " + why_not_found(words.program.front(), found)};
  }
  program.path = found.path;
  program.gpus = std::stoi(words.count);
  program.steps = std::stoi(words.steps);
  program.seconds = std::stod(words.seconds);
  program.shows_output = words.shows_output;
  program.random_weights = words.random_weights;
  if (!words.convolutions.empty()) {
    program.convolutions = std::stod(words.convolutions);
  }
  return program;
}

// Called before the program runs, which may take long. Throws Failure where the file's folder is
// not writable.
void refuse_where_nothing_can_be_written(const std::string& file) {
  const fs::path folder = fs::path(file).parent_path();
  if (!file.empty() && access(folder.empty() ? "." : folder.c_str(), W_OK) != 0) {
    throw Failure{"fit: " + config::quoted(file, 200) +
                  " cannot be written: " + std::strerror(errno)};
  }
}

void copy_trace(const fit::Answer& answer, const std::string& to) {
  std::error_code failed;
  fs::copy_file(answer.measured.front().need.trace, to, fs::copy_options::overwrite_existing,
                failed);
  if (failed) {
    throw Failure{"fit: " + config::quoted(to, 200) + " cannot be written: " + failed.message()};
  }
}

struct Told {
  std::string text;   // to print
  bool fits = false;  // on each GPU that was named
};

Told answer(const FitWords& words, const fit::Program& program, const std::vector<fit::Gpu>& gpus,
            const std::string& folder, const fit::Telling& telling) {
  const fit::Answer answer = fit::answer_for(program, gpus.empty() ? fit::usual_gpus() : gpus,
                                             !gpus.empty(), folder, telling);
  if (!words.trace.empty()) {
    copy_trace(answer, words.trace);
  }
  if (!words.page.empty()) {
    fit::write_page_of(answer.measured.front().need, words.page);
  }
  const bool fits = std::ranges::all_of(answer.verdicts, [](const fit::Verdict& verdict) {
    return verdict.cache.answer == fit::Fits::Answer::kYes;
  });
  return {words.json ? json_text(fit::json_of(program, answer), 2) + '\n'
                     : fit::text_of(program, answer),
          gpus.empty() || fits};
}

Told answer_search(const FitWords& words, const fit::Program& program,
                   const std::vector<fit::Gpu>& gpus, const std::string& folder,
                   const fit::Telling& telling) {
  if (gpus.empty()) {
    refuse("fit: --search tries the values on each GPU that --gpu names, and none is named");
  }
  const fit::Search search = fit::read_search(words.search);
  const std::vector<fit::Found> found = fit::search(program, search, gpus, folder, telling);
  return {
      words.json ? json_text(fit::json_of(program, search, found), 2) + '\n'
                 : fit::text_of(search, found),
      std::ranges::all_of(found, [](const fit::Found& each) { return each.largest.has_value(); })};
}

void run(const FitWords& words) {
  if (words.list) {
    std::fputs(fit::text_of(fit::all_gpus()).c_str(), stdout);
    return;
  }
  if (words.program.empty()) {
    refuse("fit: no program; for example: cubfc fit -- python3 train.py");
  }
  std::vector<fit::Gpu> gpus;
  for (const std::string& name : words.gpus) {
    gpus.push_back(fit::find_gpu(name));
  }
  fit::Program program = program_of(words);
  for (const std::string& file : {words.trace, words.page}) {
    refuse_where_nothing_can_be_written(file);
  }
  const TemporaryFolder folder("cubfc-fit");
  if (folder.path().empty()) {
    throw Failure{"fit: " + folder.pattern() + " cannot be made: " + std::strerror(errno)};
  }
  fit::end_runs_on_signals();
  Told told;
  try {
    ProgressLine progress(ProgressLine::Elsewhere::kLines);
    const fit::Telling telling = [&](const std::string& what) { progress.show("cubfc: " + what); };
    if (!words.learn.empty()) {
      program.convolutions =
          fit::learn_convolutions(program, gpus.empty() ? fit::usual_gpus().front() : gpus.front(),
                                  words.learn, folder.path(), telling);
    }
    told = words.search.empty() ? answer(words, program, gpus, folder.path(), telling)
                                : answer_search(words, program, gpus, folder.path(), telling);
  } catch (const recordings::BadRecording& bad) {
    throw Failure{bad.what()};
  } catch (const report::CannotWrite& cannot) {
    throw Failure{cannot.what()};
  }
  std::fputs(told.text.c_str(), stdout);
  if (!told.fits) {
    throw Failure{"", kDoesNotFit};
  }
}

}  // namespace

void add_fit(CLI::App& app, std::vector<std::string>& words) {
  CLI::App* const command = app.add_subcommand(
      "fit", "How much GPU memory does a program need, and which GPU has it? Without a GPU.");
  const auto fit = std::make_shared<FitWords>();
  command->description(kAbout);
  command->footer(kFooter);
  command
      ->add_option(
          "--gpu", fit->gpus,
          "a GPU (see --list-gpus), a slice of one (A100-80GB:2g.20gb), or how much memory "
          "it has (24GiB); may be given again")
      ->type_name("NAME|SIZE")
      ->allow_extra_args(false);
  command->add_flag("--list-gpus", fit->list, "the GPUs that are known, and what of them");
  command->add_option("--gpus", fit->count, "how many of them the program sees")
      ->type_name("N")
      ->check(whole_number(1, 16))
      ->capture_default_str();
  command
      ->add_option("--steps", fit->steps,
                   "end when the peak has not risen over so many steps of its optimizers; 0: never")
      ->type_name("N")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  command->add_option("--seconds", fit->seconds, "end after so long; 0: never")
      ->type_name("S")
      ->check(seconds(0, 1e6))
      ->capture_default_str();
  command
      ->add_option("--trace", fit->trace, "keep the recording of the first run, for `cubfc report`")
      ->type_name("FILE");
  command
      ->add_option("--page", fit->page,
                   "write the first run as a page: what was held when, and by which line")
      ->type_name("FILE");
  command
      ->add_option(
          "--cudnn", fit->convolutions,
          "what cuDNN's convolutions take for themselves, as a share of copies of all that "
          "they read and write; without it the answer is a range, of 0 to 1")
      ->type_name("SHARE")
      ->check(fraction(0, 1, "share", ""));
  command
      ->add_option(
          "--learn", fit->learn,
          "learn that share from a recording of this program with these arguments on a GPU "
          "(torch.cuda.memory._dump_snapshot)")
      ->type_name("FILE")
      ->excludes("--cudnn");
  command
      ->add_option("--search", fit->search,
                   "the largest value that fits, in the place of {NAME} in the program's words; "
                   "VALUES: 1..256, 8..256/8 (every eighth) or 1,2,4,8")
      ->type_name("NAME=VALUES")
      ->excludes("--trace")
      ->excludes("--page");
  command->add_flag("--random-weights", fit->random_weights,
                    "weights of Hugging Face's models are made up, not downloaded or read: their "
                    "configuration is all that is needed");
  command->add_flag("--json", fit->json, "print JSON");
  command->add_flag("--show-output", fit->shows_output, "show what the program writes");
  command->callback([fit] { run(*fit); });
  fit->program = take_program(*command, words);
}

}  // namespace cubfc::cli
