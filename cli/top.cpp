// `cubfc top`: the devices and processes under cubfc, live or once.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/live/gpu_memory.h"
#include "cli/live/nvml_memory.h"
#include "cli/numbers.h"
#include "cli/report/wording.h"
#include "cli/top/json.h"
#include "cli/top/look.h"
#include "cli/top/screen.h"
#include "cli/top/table.h"
#include "cli/top/terminal.h"

namespace cubfc::cli {
namespace {

using std::chrono::steady_clock;

constexpr const char* kTopFooter = R"(
IN USE: allocated and not freed. IDLE: what arenas have and no block uses. RESERVED:
preallocated, in no arena yet. TAKEN: all that the process holds of the GPU, without
contexts and modules. PEAK: the most that was in use. FRAG: the share of what is idle
that no single request could have. ALLOC/S: since the last look. BLOCKED: the share of
the time since then in which frees waited for the GPU. REFUSED: requests that failed
for lack of memory. WAITING: freed by the program, and not to be used yet. USER is
there where there are several, and for root. NOTE is what needs a look: near limit
(nine tenths of it in use), refused, fragmented (half of what is idle, of a twentieth of
the GPU or more), much idle (a tenth of the GPU or more, and less in use); + tells that
there is more, which the details have. Where there is no room for it, a ! stands before
the row.

The bar of a GPU is what is in use, and held unused, by processes under cubfc, what
others hold (processes without it, contexts, modules: as NVML tells), and what is free.

Keys: up, down (k, j), Page Up, Page Down, Home, End select a process; Enter shows
where its memory is, of what kind and who asked for it, Esc hides that; meanwhile these
keys scroll, and n and p go to the next process and the one before; s and S (or > and <)
sort by the next column and the one before, r reverses; ? shows the keys; q ends.

Into a file or a pipe one table is written, with --interval or --json they follow each
other, and so they do on a terminal with TERM=dumb. NO_COLOR is honoured.
Root sees the processes of all users, others their own. A process that was started
with CUBFC_SHARE_STATS=false is not seen.

Exit status: 0 done, 1 none of the processes of --pid is there (with --once), or the
output cannot be written, 2 the command line is wrong.

Examples:
  cubfc top
  cubfc top --once --json | jq '.processes[].devices[].bytes_in_use'
)";

struct TopWords {
  bool once = false;
  bool json = false;
  std::optional<double> interval;
  std::vector<int> pids;
  std::string child;  // "gpu-memory" in the child of GpuMemoryAsker; else empty

  std::chrono::nanoseconds pause() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(interval.value_or(1)));
  }
  // Into a file or a pipe one table is written, since its reader waits for the end; several are
  // written with --json or --interval.
  bool is_once() const { return once || (!json && !interval && isatty(STDOUT_FILENO) != 1); }
};

// How long NVML's answer is waited for (GpuMemoryAsker::ask()). The live screen is not kept waiting
// as long.
constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kPatienceOfScreen{200};

void write(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Failure{std::string("standard output: ") + std::strerror(errno)};
  }
}

// https://no-color.org: NO_COLOR counts where it is set and not empty.
bool wants_no_color() {
  const char* const value = std::getenv("NO_COLOR");
  return value != nullptr && *value != '\0';
}

std::string text_of(const std::vector<top::Line>& lines) {
  std::string text;
  for (const top::Line& line : lines) {
    text += line.text + '\n';
  }
  return text;
}

std::string plain_table(const top::Look& look, const TopWords& words) {
  const std::size_t width =
      isatty(STDOUT_FILENO) == 1 ? top::Terminal::size().columns : top::kAnyWidth;
  const std::vector<top::Line> nothing = top::nothing_there(look, words.pids);
  return text_of(nothing.empty() ? top::table(look, width) : nothing);
}

std::string time_line(const top::Look& look) {
  const auto seconds = static_cast<std::time_t>(look.unix_ns / 1'000'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%F %T\n", &local);
  return text.data();
}

// Prints the files that cannot be used, but only when they are others than last time.
void tell_problems(const top::Look& look, std::vector<std::string>& told) {
  if (look.processes.unusable != told) {
    told = look.processes.unusable;
    for (const std::string& problem : told) {
      std::fprintf(stderr, "cubfc: %s\n", report::printable(problem).c_str());
    }
  }
}

void write_once(const TopWords& words) {
  live::GpuMemoryAsker asker;
  top::Look look = top::take_look(words.pids, nullptr, asker, kPatience);
  std::vector<std::string> told;
  tell_problems(look, told);
  if (!words.pids.empty() && look.processes.all.empty()) {
    throw Failure{"top: none of the processes of --pid is seen under cubfc"};
  }
  top::sort(look, {});
  write(words.json ? top::json(look) : plain_table(look, words));
}

[[noreturn]] void write_forever(const TopWords& words) {
  auto next = steady_clock::now();
  live::GpuMemoryAsker asker;
  std::unique_ptr<top::Look> last;
  std::vector<std::string> told;
  while (true) {
    auto look =
        std::make_unique<top::Look>(top::take_look(words.pids, last.get(), asker, kPatience));
    tell_problems(*look, told);
    top::sort(*look, {});
    write(words.json ? top::json(*look)
                     : (last ? "\n" : "") + time_line(*look) + plain_table(*look, words));
    last = std::move(look);
    next = std::max(next + words.pause(), steady_clock::now());
    std::this_thread::sleep_until(next);
  }
}

// Handles keys until the time `until`, and returns false then. Returns true as soon as a key or a
// signal wants the end.
bool obey_keys(top::Terminal& terminal, top::Keys& keys, top::Screen& screen,
               steady_clock::time_point until) {
  // The bytes of one key come together. When none has followed an Escape byte within this pause,
  // the Escape key was pressed.
  constexpr std::chrono::milliseconds kSequencePause{50};
  while (true) {
    const auto left_over = until - steady_clock::now();
    if (left_over <= left_over.zero()) {
      return false;
    }
    const bool short_wait = keys.is_waiting() && left_over > kSequencePause;
    const auto event = terminal.wait(short_wait ? kSequencePause : left_over);
    if (event == top::Terminal::Event::kEnd) {
      return true;
    }
    const bool typed = event == top::Terminal::Event::kTyped;
    for (const top::KeyPress& press :
         typed ? keys.read(terminal.typed()) : keys.give_up_waiting()) {
      if (!screen.press(press)) {
        return true;
      }
    }
    terminal.draw(screen.drawn(top::Terminal::size()));
  }
}

void show_live(const TopWords& words) {
  live::GpuMemoryAsker asker;
  top::Terminal terminal;
  top::Screen screen(words.pids, wants_no_color());
  top::Keys keys;
  std::unique_ptr<top::Look> last;
  bool ended = false;
  while (!ended) {
    const auto next = steady_clock::now() + words.pause();
    auto look = std::make_unique<top::Look>(
        top::take_look(words.pids, last.get(), asker, kPatienceOfScreen));
    screen.show(*look);
    last = std::move(look);
    terminal.draw(screen.drawn(top::Terminal::size()));
    ended = obey_keys(terminal, keys, screen, next);
  }
  terminal.leave();
}

void run(const TopWords& words) {
  if (words.child == "gpu-memory") {
    live::tell_gpu_memory();
    return;
  }
  std::setlocale(LC_CTYPE, "");  // for top/width.h: the character set, and characters' widths
  if (words.is_once()) {
    write_once(words);
  } else if (words.json || !top::Terminal::is_there()) {
    write_forever(words);
  } else {
    try {
      show_live(words);
    } catch (const std::system_error& error) {
      throw Failure{error.what()};
    }
  }
}

}  // namespace

void add_top(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("top", "GPUs and processes under cubfc, live.");
  const auto words = std::make_shared<TopWords>();
  command.footer(kTopFooter);
  command.add_flag("--once", words->once, "one look, then the end");
  command.add_flag("--json", words->json, "a line of JSON for each look");
  command.add_option("--interval", words->interval, "between two looks (1)")
      ->type_name("SECONDS")
      ->check(seconds(0.1, 86400));
  command.add_option("--pid", words->pids, "only this process; several may be named")
      ->type_name("N")
      ->expected(1)
      ->take_all()
      ->check(process_number());
  command.add_option("--child", words->child)->group("");
  command.callback([words] { run(*words); });
}

}  // namespace cubfc::cli
