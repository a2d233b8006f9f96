// `cubfc run`: executes a program under the library.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/check/count_gpus.h"
#include "cli/commands.h"
#include "cli/live/ended.h"
#include "cli/live/processes.h"
#include "cli/option_flags.h"
#include "cli/program_words.h"
#include "cli/report/wording.h"
#include "cli/run/library.h"
#include "cli/run/program.h"
#include "cli/run/settings.h"
#include "cli/run/share.h"
#include "cli/run/wait.h"
#include "config/environment.h"
#include "config/options.h"
#include "config/policy.h"

namespace cubfc::cli {
namespace {

// Exit statuses, as of a shell, env and nohup.
constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

struct RunWords {
  std::vector<std::string> program;          // with its arguments
  std::map<std::string, std::string> flags;  // what was given for each, by the option's own name
  std::optional<std::string> share;
  std::optional<std::string> library;
  bool quiet = false;
  bool observe = false;
  bool wait = false;
};

// Whether the option decides how much memory is taken, or when.
bool is_of_policy(std::string_view option) {
  constexpr std::array kNames{"CUBFC_PREALLOCATE",       "CUBFC_MEM_FRACTION",
                              "CUBFC_MEM_FRACTION_OF",   "CUBFC_MEM_LIMIT",
                              "CUBFC_PREALLOCATE_LIMIT", "CUBFC_RESERVE",
                              "CUBFC_HOST_RESERVE",      "CUBFC_GROUP",
                              "CUBFC_GROUP_LIMIT",       "CUBFC_ASYNC_PREALLOCATE"};
  return std::ranges::find(kNames, option) != kNames.end();
}

// The settings of --observe: nothing is taken before the program asks for it. Throws Failure where
// a flag wants otherwise.
void set_to_observe(const RunWords& words, Variables& settings) {
  for (const auto& [name, value] : words.flags) {
    if (is_of_policy(name)) {
      refuse("--observe takes nothing ahead and sets no limit: it cannot be given with " +
             flag_of(*config::find_option(name)));
    }
  }
  if (words.share) {
    refuse("--observe sets no limit: it cannot be given with --share");
  }
  settings["CUBFC_PREALLOCATE"] = "false";
  settings["CUBFC_RESERVE"] = "0";
  settings["CUBFC_HOST_RESERVE"] = "0";
}

// The variables that the flags stand for. All values are read here, so that no program is started
// with a value that the library would not take. Throws Failure.
Variables settings_of(const RunWords& words, const std::optional<Share>& share) {
  Variables settings;
  config::Policy policy;
  for (const bool limits : {false, true}) {  // limits last: see config::Reader
    for (const config::Option& option : config::options()) {
      const auto given = words.flags.find(std::string(option.own.name));
      if (config::is_limit(option) != limits || given == words.flags.end()) {
        continue;
      }
      const std::string flag = flag_of(option);
      option.store(policy, read_flag(option, flag, given->second, policy),
                   {.variable = flag, .value = given->second, .own_name = true});
      settings[given->first] = given->second;
    }
  }
  if (share) {
    if (policy.mem_fraction.is_set() || policy.mem_limit.is_set()) {
      refuse("--share is a limit: it cannot be given with --mem-fraction or --mem-limit");
    }
    settings["CUBFC_MEM_FRACTION"] = share->fraction();
  }
  if (words.observe) {
    set_to_observe(words, settings);
  }
  return settings;
}

void tell(const std::string& line) {
  std::fprintf(stderr, "cubfc: %s\n", line.c_str());
}

// Tells a user who records without --observe that memory is taken ahead, and a user of --observe
// that a limit is in force all the same.
void tell_of_observing(const RunWords& words, const config::Policy& policy) {
  const bool looks = words.flags.contains("CUBFC_TRACE") || words.flags.contains("CUBFC_SUMMARY");
  const bool is_default = policy.preallocates_by_default() && !policy.limits() && !words.share;
  if (words.observe && policy.limits()) {
    tell("--observe sets no limit; what limits this program is not its own");
  } else if (looks && is_default) {
    tell("memory is taken ahead; --observe looks without that");
  }
}

// Makes this process the program; sets config::kRunVariable for it, unless --quiet is given. Throws
// Failure where the program cannot be executed.
[[noreturn]] void execute(const RunWords& words, const std::string& path) {
  if (!words.quiet) {
    setenv(config::kRunVariable.data(), std::to_string(getpid()).c_str(), 1);
  }
  const std::vector<char*> arguments = pointers_to(words.program);
  std::fflush(nullptr);
  execvp(path.c_str(), arguments.data());
  const int error = errno;
  // The program's file was found, so what is missing is its interpreter: that of a script, or the
  // dynamic linker.
  throw Failure{
      config::shown(path, 200) + ": " +
          (error == ENOENT ? "what its first line, or its dynamic linker, names is not there"
                           : std::strerror(error)),
      kCannotExecute};
}

// Called with --wait when the program has ended. For each process of the run that has ended without
// a summary, prints what it used.
void tell_of_ended(pid_t run) {
  for (const live::Process& process : live::read_ended_processes().all) {
    if (process.figures->run_pid != run || process.figures->told.load() != 0 ||
        process.figures->is_forked != 0) {
      continue;
    }
    tell(live::title_of_ended(process) + ':');
    for (const std::string& line : live::lines_of_ended(process)) {
      tell(line);
    }
    live::note_as_told(process);
  }
}

// Under WSL2, and on a Jetson, /dev has no nvidia0; then the driver is asked.
unsigned count_gpus() {
  const unsigned in_dev = count_gpus_of_machine();
  return in_dev > 0 ? in_dev : check::count_gpus_of_driver();
}

void run(const RunWords& words) {
  if (words.program.empty()) {
    refuse("which program? `cubfc run [OPTIONS] -- PROGRAM ARGUMENTS`");
  }
  std::optional<Share> share;
  if (words.share) {
    share = read_share_of(
        *words.share, [](const char* name) { return std::getenv(name); }, count_gpus);
  }
  Variables settings = settings_of(words, share);
  const config::Policy policy = policy_with(settings);
  if (policy.limit_unusable) {
    refuse(policy.limit_explanation);
  }
  const std::string library =
      find_library(words.library, policy.sleep.value ? kSleepLibraryName : kLibraryName);
  const std::string search = search_path();
  const FoundProgram program = find_program(words.program[0], search);
  if (program.path.empty()) {
    throw Failure{why_not_found(words.program[0], program),
                  program.error == ENOENT || program.error == ENOTDIR ? kNotFound : kCannotExecute};
  }
  const std::string preloaded = variable("LD_PRELOAD");
  settings["LD_PRELOAD"] = preload_with(preloaded, library);
  if (!words.quiet) {
    if (!policy.log_level.is_set()) {
      settings["CUBFC_LOG_LEVEL"] = "info";
    }
    if (!policy.show_stats.is_set()) {
      settings["CUBFC_SHOW_STATS"] = "true";
    }
    tell("preloading " + library.substr(library.rfind('/') + 1) + " " CUBFC_VERSION +
         (share ? ", mem_fraction " + share->fraction() + ": " + share->because : ""));
    tell_of_observing(words, policy);
    if (const std::string last = live::tell_last_run(); !last.empty()) {
      tell(last);
    }
  }
  for (const std::string& obstacle :
       obstacles_to_preload(program.path, library, preloaded, search)) {
    tell(obstacle);
  }
  if (policy.disable.value) {
    tell("it does nothing: " + policy.disable.origin.text() + " is set");
  }
  for (const auto& [name, value] : settings) {
    if (setenv(name.c_str(), value.c_str(), 1) != 0) {
      throw Failure{name + ": " + std::strerror(errno)};
    }
  }
  if (!words.wait) {
    execute(words, program.path);
  }
  run_and_wait(
      [&] {
        try {
          execute(words, program.path);
        } catch (const Failure& failure) {
          std::fprintf(stderr, "cubfc: run: %s\n", failure.message.c_str());
          std::_Exit(failure.exit_status);
        }
      },
      [&](int child) {
        if (!words.quiet) {
          tell_of_ended(child);
        }
      });
}

}  // namespace

void add_run(CLI::App& app, std::vector<std::string>& words) {
  CLI::App* const command = app.add_subcommand("run", "Executes a program under cubfc.");
  const auto ours = std::make_shared<RunWords>();
  command->add_option("PROGRAM", ours->program, "what to execute, and its arguments")
      ->type_name("");  // for --help only; take_program() reads these words
  command
      ->add_option("--share", ours->share,
                   "so many processes share each GPU equally: a number, or auto for what torchrun, "
                   "Open MPI, MPICH or Slurm says of this node; a limit, as --mem-fraction is")
      ->type_name("N|auto");
  add_library_option(*command, ours->library);
  command->add_flag(
      "--observe", ours->observe,
      "to look at a program: take memory only as it asks for it, hold no reserve, set "
      "no limit");
  command->add_flag(
      "--wait", ours->wait,
      "stay as the program's parent, and tell at once what it used where it is killed. The program "
      "then has another process id than this command, and is killed with it; signals are passed "
      "on, "
      "so one that is sent to the whole process group reaches the program twice");
  command->add_flag("-q,--quiet", ours->quiet,
                    "say nothing but what is wrong: no line at the start, no summary at the end");
  for (const config::Option& option : config::options()) {
    std::string& text = ours->flags[std::string(option.own.name)];
    CLI::Option* const flag =
        is_boolean(option) ? command->add_flag(flag_of(option) + "{true}", text, help_of(option))
                           : command->add_option(flag_of(option), text, help_of(option));
    flag->type_name(value_name(option))
        ->group(heading_of(option))
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  command->footer(value_names_text() + R"(

Each option of cubfc is a flag: CUBFC_MEM_LIMIT is --mem-limit. A flag wins over its
variable in the environment. The program is executed in place of this command: signals,
the exit status, the terminal and job control are its own. What LD_PRELOAD has already
stays in front. What a program used that is killed, `cubfc last` tells, and the next
`cubfc run` in a line. Without -q, CUBFC_LOG_LEVEL=info and CUBFC_SHOW_STATS=true are set where
they are not: the library says at the program's first allocation what is in force, and
at its exit what was used, or that the program has allocated no GPU memory.

Exit status: the program's; 126 it cannot be executed, 127 there is no such program,
2 the command line is wrong, and nothing was started.

Examples:
  cubfc run --mem-fraction 0.5 -- python3 train.py --epochs 3
  torchrun --nproc-per-node 4 --no-python cubfc run --share auto -- python3 train.py
  cubfc run --observe --trace run.%p.cubfc --oom-report oom.json -- ./app)");
  command->callback([ours, command] {
    // Removes the flags that were not given. A flag that was given an empty value stays.
    std::erase_if(ours->flags, [&](const auto& flag) {
      return command->get_option(flag_of(*config::find_option(flag.first)))->count() == 0;
    });
    try {
      run(*ours);
    } catch (Failure& failure) {
      failure.message.insert(0, "run: ");
      throw;
    }
  });
  ours->program = take_program(*command, words);
}

}  // namespace cubfc::cli
