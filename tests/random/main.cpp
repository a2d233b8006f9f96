// Makes random correct CUDA programs, runs each, and looks at every byte that it leaves: whatever
// is preloaded must not change it. See kUsage. Knows nothing of cubfc.
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "run.h"

// Of a sanitizer's runtime, if there is one.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using namespace random_programs;

constexpr char kUsage[] =
    "usage: random_programs [--seed N] [--programs N] [--seconds N] [--via=linked|dlsym|getproc]\n"
    "                       [--patience N] [--no-captures] [--one-thread] [--no-shrink] [--runs "
    "N]\n"
    "                       [--print] [--help]\n"
    "\n"
    "Makes random CUDA programs that are correct, runs them, and checks every byte that they "
    "leave.\n"
    "On two devices, or on the only one; a seed stands for other programs there.\n"
    "Stops at the first program that goes wrong.\n"
    "\n"
    "  --seed N       of the first program (1); the next has N + 1\n"
    "  --programs N   how many (100)\n"
    "  --seconds N    stop after so many\n"
    "  --patience N   seconds for one program, which is stuck if it takes longer (30)\n"
    "  --via=...      how the driver's functions are found (linked)\n"
    "  --no-captures  no stream captures in them\n"
    "  --one-thread   each has one thread\n"
    "  --shrink       look for a shorter program that goes wrong, too; --no-shrink: do not "
    "(--shrink)\n"
    "  --runs N       how often each is run before it counts as right (10 and more: a race does "
    "not\n"
    "                 show each time)\n"
    "  --print        print each program before it runs\n"
    "  --help         this text\n"
    "\n"
    "Exit status: 0 when all went well, 1 when a program went wrong, 2 for bad arguments.\n";

struct Options {
  programs::Via via = programs::Via::kLinked;
  std::uint64_t seed = 1;
  std::uint64_t programs = 100;
  std::uint64_t seconds = UINT64_MAX;
  unsigned patience_seconds = 30;
  int runs = 0;  // of a shorter program; 0: shrink() decides
  Allowed allowed;
  bool shrink = true;
  bool print = false;
};

Options read_options(int argc, char** argv) {
  Options options;
  options.via = programs::take_via(argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const auto number = [&] { return programs::number_argument(word, argv[++i]); };
    if (word == "--seed") {
      options.seed = number();
    } else if (word == "--programs") {
      options.programs = number();
    } else if (word == "--seconds") {
      options.seconds = number();
    } else if (word == "--patience") {
      options.patience_seconds = static_cast<unsigned>(number());
    } else if (word == "--runs") {
      options.runs = static_cast<int>(number());
    } else if (word == "--shrink" || word == "--no-shrink") {
      options.shrink = word == "--shrink";
    } else if (word == "--no-captures") {
      options.allowed.captures = false;
    } else if (word == "--one-thread") {
      options.allowed.threads = false;
    } else if (word == "--print") {
      options.print = true;
    } else if (word == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    } else {
      std::fprintf(stderr, "random_programs: unknown argument '%s'\n%s", argv[i], kUsage);
      std::exit(2);
    }
  }
  return options;
}

// A program that is stuck or crashes takes the process along. Its seed is said all the same.
char last_words[64];

void set_last_words(std::uint64_t seed) {
  std::snprintf(last_words, sizeof last_words, "random_programs: it ended at seed %llu\n",
                static_cast<unsigned long long>(seed));
}

void say_last_words() {
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, last_words, std::strlen(last_words));
}

// "  thread 1 is in step 17". Memory is not to be had, and printf is not for a signal's handler.
void say_where(int thread, const Place& place) {
  std::array<char, 80> line{};
  const char* const does[] = {"", "waits before", "is in",
                              "has done all of its own and ends, after",
                              "checks and cleans up, after"};
  const auto doing = static_cast<std::size_t>(place.doing.load());
  std::snprintf(line.data(), line.size(), "  thread %d %s step %d\n", thread, does[doing],
                place.step.load());
  [[maybe_unused]] const auto written = write(STDOUT_FILENO, line.data(), std::strlen(line.data()));
}

std::atomic<bool> has_printed = false;

void print_stack(int /*signal*/) {
  std::array<void*, 64> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), static_cast<int>(frames.size())),
                       STDOUT_FILENO);
  has_printed = true;
}

// Each thread prints its own stack.
void say_where_all_are() {
  for (int thread = 0; thread < kMostThreads; ++thread) {
    const Place& place = places[static_cast<std::size_t>(thread)];
    if (place.doing != Place::Doing::kNothing) {
      say_where(thread, place);
      has_printed = false;
      tgkill(getpid(), place.thread, SIGUSR1);
      for (int tries = 0; tries < 1000 && !has_printed; ++tries) {
        usleep(1000);  // one that takes no signals prints nothing
      }
    }
  }
}

void die(int signal) {
  if (signal == SIGALRM) {
    constexpr std::string_view kStuck = "random_programs: a program does not end\n";
    [[maybe_unused]] const auto written = write(STDOUT_FILENO, kStuck.data(), kStuck.size());
    say_where_all_are();
  }
  say_last_words();
  raise(signal);  // by default from now on, see SA_RESETHAND
}

void watch() {
  struct sigaction action {};
  action.sa_handler = die;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  sigaction(SIGALRM, &action, nullptr);
  std::array<void*, 1> frame{};
  backtrace(frame.data(), 1);  // loads what it needs, while memory is to be had
  struct sigaction of_thread {};
  of_thread.sa_handler = print_stack;
  of_thread.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &of_thread, nullptr);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(say_last_words);  // it reports crashes itself
    return;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    sigaction(signal, &action, nullptr);
  }
}

void print(const Program& program) {
  for (const Step& step : program.steps) {
    std::printf("%s\n", text_of(step).c_str());
  }
}

void report(const Program& program, std::uint64_t seed, const std::string& wrong, Runner& runner,
            const Options& options) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
  std::fflush(stdout);
  std::string still_wrong = wrong;
  Program shortest = program;
  if (options.shrink) {
    const Fails fails = [&](const Program& shorter) {
      alarm(options.patience_seconds);
      const std::string now = runner.run(shorter);
      still_wrong = now.empty() ? still_wrong : now;
      return !now.empty();
    };
    shortest = shrink(program, fails, options.runs);
    std::printf("shrunk from %zu to %zu steps: %s\n", program.steps.size(), shortest.steps.size(),
                still_wrong.c_str());
  }
  print(shortest);
  std::printf("again: random_programs --seed %llu --programs 1%s%s\n",
              static_cast<unsigned long long>(seed),
              options.allowed.captures ? "" : " --no-captures",
              options.allowed.threads ? "" : " --one-thread");
}

}  // namespace

int main(int argc, char** argv) {
  Options options = read_options(argc, argv);
  const programs::Driver api = programs::open_driver(options.via);
  Runner runner(api);
  options.allowed.devices = runner.devices();
  watch();
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::uint64_t done = 0;
  std::size_t steps = 0;
  for (; done < options.programs && seconds() < static_cast<double>(options.seconds); ++done) {
    const std::uint64_t seed = options.seed + done;
    set_last_words(seed);
    alarm(options.patience_seconds);
    const Program program = generate(seed, options.allowed);
    if (options.print) {
      std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
      print(program);
      std::fflush(stdout);
    }
    if (const std::string wrong = runner.run(program); !wrong.empty()) {
      report(program, seed, wrong, runner, options);
      return 1;
    }
    steps += program.steps.size();
  }
  std::printf("%llu programs from seed %llu, %zu steps, %.1f s: no wrong byte\n",
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(options.seed),
              steps, seconds());
}
