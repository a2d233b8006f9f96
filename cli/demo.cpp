// `cubfc demo`: what cubfc does, shown on a GPU that is software. Its steps are commands that a
// user would type, and are shown as such: each can be typed again.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/run/child_process.h"
#include "cli/run/library.h"
#include "cli/run/settings.h"
#include "cli/run/software_gpu.h"
#include "cli/shell_words.h"
#include "config/values.h"

namespace cubfc::cli {
namespace {

namespace fs = std::filesystem;

// The program's name: of the file in the software GPU's folder, and of the link in the demo's
// folder.
constexpr const char* kProgram = "training";
constexpr const char* kFirstWords =
    R"(A training that knows nothing of cubfc runs on a GPU that is software. It needs no
GPU, computes nothing, and its times mean nothing; what it asks for, what is
refused and what is said are as on a GPU. You can type each line behind a $:
)";
constexpr const char* kLastWords = R"(
On a machine with a GPU, with a program of your own:
  cubfc check                                      whether it can work here
  cubfc run --mem-limit 20GiB -- python3 train.py  a limit
  cubfc top                                        who uses the GPU
)";

struct Step {
  const char* why;
  const char* command;  // of the shell's
  int exit_status;      // what it ends with where all is well
};

constexpr Step kSteps[] = {
    {"The program has a hard limit, and meets it. What was in the way is said in words,\n"
     "in one line when it happens, and in full when the program ends by it:",
     "cubfc run --mem-limit 1.5GiB -- ./training", 1},
    {"Without a limit, and recorded with the lines that asked for memory:",
     "cubfc run --observe --trace training.cubfc --trace-stacks 16 -- ./training", 0},
    {"What the recording says: how much, when, and which line asked for it. keep_logits\n"
     "is a leak, as more of it is left at the end than there was at the peak:",
     "cubfc report --text training.cubfc | head -n 36", 0},
    {"The same as a page, with every block at every moment:",
     "cubfc report training.cubfc -o training.html", 0},
    {"Would it fit on a smaller GPU?",
     "cubfc replay training.cubfc --total 1.75GiB --allocator bfc", 3},
};

// The environment of the steps, without settings of the user's for cubfc or for the software GPU,
// which would change what is shown.
Variables variables_of_demo(const std::string& software_gpu) {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view name = std::string_view(*entry).substr(0, std::strcspn(*entry, "="));
    if (name.starts_with("CUBFC_") || name.starts_with("STANDIN_")) {
      variables.emplace(name, "");
    }
  }
  variables["LD_PRELOAD"] = "";
  variables["LD_LIBRARY_PATH"] = software_gpu;
  variables["STANDIN_MEMORY"] = "8GiB";
  variables["PATH"] = fs::path(this_command()).parent_path().string() + ':' + search_path();
  return variables;
}

// Makes the folder and goes into it. Takes an empty one, or one of an earlier demo, too; refuses
// any other, so that a user's files are left alone. Throws Failure.
void enter_folder(const std::string& folder, const std::string& software_gpu) {
  std::error_code failed;
  const fs::path link = fs::path(folder) / kProgram;
  if (fs::exists(folder, failed) && !fs::is_symlink(link, failed) &&
      !(fs::is_directory(folder, failed) && fs::is_empty(folder, failed))) {
    refuse("demo: " + config::quoted(folder, 200) +
           " is there, and not of an earlier demo; choose another with --folder");
  }
  fs::create_directories(folder, failed);
  if (!failed) {
    fs::remove(link, failed);
  }
  if (!failed) {
    fs::create_symlink(fs::path(software_gpu) / kProgram, link, failed);
  }
  if (!failed) {
    fs::current_path(folder, failed);
  }
  if (failed) {
    throw Failure{"demo: no folder " + config::quoted(folder, 200) +
                  " can be made: " + failed.message() + "; choose another with --folder"};
  }
}

// Runs the command by /bin/sh. Returns its exit status, or 128 and the signal's number. Throws
// Failure.
int run_by_shell(const char* command, const Variables& variables) {
  const std::vector<std::string> words{"/bin/sh", "-c", command};
  const std::vector<std::string> entries = environment_with(variables);
  const std::vector<char*> arguments = pointers_to(words);
  const std::vector<char*> environment = pointers_to(entries);
  const pid_t child = fork_with_this();
  if (child == 0) {
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (child < 0) {
    throw Failure{std::string("demo: no process can be made: ") + std::strerror(errno)};
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void demonstrate(const std::string& folder) {
  const std::optional<std::string> software_gpu = find_software_gpu(find_library(std::nullopt));
  if (!software_gpu || !fs::exists(fs::path(*software_gpu) / kProgram)) {
    throw Failure{
        "demo: the software GPU is not installed. It is a package of its own, cubfc-software-gpu: "
        "`pip install` its wheel beside that of cubfc, or `apt install` its .deb"};
  }
  const Variables variables = variables_of_demo(*software_gpu);
  enter_folder(folder, *software_gpu);
  std::printf(
      "%s\n$ cd %s\n$ export LD_LIBRARY_PATH=%s \\\n    STANDIN_MEMORY=8GiB PATH=%s:$PATH\n",
      kFirstWords, for_shell(folder).c_str(), for_shell(*software_gpu).c_str(),
      for_shell(fs::path(this_command()).parent_path().string()).c_str());
  int number = 0;
  for (const Step& step : kSteps) {
    std::printf("\n%d. %s\n\n$ %s\n", ++number, step.why, step.command);
    std::fflush(stdout);  // before the command writes anything
    const int status = run_by_shell(step.command, variables);
    if (status == 128 + SIGPIPE) {
      throw Failure{""};  // the reader of stdout has gone
    }
    if (status != step.exit_status) {
      throw Failure{"demo: `" + std::string(step.command) + "` ended with status " +
                    std::to_string(status) + " instead of " + std::to_string(step.exit_status)};
    }
  }
  std::printf("\nThe page is %s: open it in a browser.\nThe folder can be removed.\n%s",
              fs::absolute("training.html").c_str(), kLastWords);
}

}  // namespace

void add_demo(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "demo", "What cubfc does, in a few seconds and without a GPU: a limit, a report, a page.");
  const auto folder = std::make_shared<std::string>("cubfc-demo");
  command->add_option("--folder", *folder, "where its files go")
      ->type_name("FOLDER")
      ->capture_default_str();
  command->footer(R"(
Runs a program on the software GPU, which is a package of its own (cubfc-software-gpu), under a
limit, and with a recording; shows what is said, and leaves a page to look at. Your own settings do
not count, and a GPU is not used.

Exit status: 0 all went as it should; 1 it did not, or the software GPU is not installed; 2 the
command line is wrong.

Examples:
  cubfc demo
  cubfc demo --folder /tmp/demo)");
  command->callback([folder] { demonstrate(*folder); });
}

}  // namespace cubfc::cli
