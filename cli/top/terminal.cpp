#include "cli/top/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace cubfc::cli::top {
namespace {

// kEnding: signals that end the process, before which the terminal must be put back.
constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kOthers{SIGWINCH, SIGTSTP, SIGCONT};

volatile sig_atomic_t g_ended_by = 0;
volatile sig_atomic_t g_resized = 0;
volatile sig_atomic_t g_continued = 0;
volatile sig_atomic_t g_stop_wanted = 0;

void note(int signal) {
  if (signal == SIGWINCH) {
    g_resized = 1;
  } else if (signal == SIGCONT) {
    g_continued = 1;
  } else if (signal == SIGTSTP) {
    g_stop_wanted = 1;
  } else {
    g_ended_by = signal;
  }
}

// A signal that is ignored (nohup) stays ignored.
void handle(int signal) {
  struct sigaction before {};
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) {
    return;
  }
  struct sigaction action {};
  action.sa_handler = note;
  sigaction(signal, &action, nullptr);
}

sigset_t all_handled() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEnding) {
    sigaddset(&set, signal);
  }
  for (const int signal : kOthers) {
    sigaddset(&set, signal);
  }
  return set;
}

timespec as_timespec(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

std::size_t number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  const long number = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return number > 0 && number < 10'000 ? static_cast<std::size_t>(number) : 0;
}

// Tries again after a signal, unless that ends the process. The kernel stops a background process
// here until it is in the foreground.
void set_terminal(const termios& settings) noexcept {
  while (tcsetattr(STDIN_FILENO, TCSADRAIN, &settings) != 0 && errno == EINTR && g_ended_by == 0) {
  }
}

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kLeave = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

}  // namespace

Terminal::Terminal() {
  if (tcgetattr(STDIN_FILENO, &before_) != 0) {
    throw std::system_error(errno, std::generic_category(), "the terminal");
  }
  const sigset_t handled = all_handled();
  sigprocmask(SIG_BLOCK, &handled, &mask_before_);
  for (const int signal : kEnding) {
    handle(signal);
  }
  for (const int signal : kOthers) {
    handle(signal);
  }
  enter();
}

Terminal::~Terminal() {
  restore();
}

bool Terminal::is_there() {
  const char* const kind = std::getenv("TERM");
  return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && kind != nullptr &&
         *kind != '\0' && std::string_view(kind) != "dumb";
}

Size Terminal::size() {
  winsize window{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &window);
  Size size{window.ws_col, window.ws_row};
  size.columns = size.columns > 0 ? size.columns : number_in("COLUMNS");
  size.lines = size.lines > 0 ? size.lines : number_in("LINES");
  return {size.columns > 0 ? size.columns : 80, size.lines > 0 ? size.lines : 24};
}

void Terminal::take_keys() noexcept {
  termios settings = before_;
  settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  // With IXON, Ctrl-S would stop all output, and so the whole program.
  settings.c_iflag &= ~static_cast<tcflag_t>(IXON);
  // These settings stay when the process is stopped by SIGSTOP. With VMIN 0, a shell would then
  // read 0 bytes, and take that for the end of its input.
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  set_terminal(settings);
}

void Terminal::enter() {
  take_keys();
  is_entered_ = true;
  write(kEnter, nullptr);
}

// Waits at most 200 ms for a terminal that takes no output.
void Terminal::restore() noexcept {
  if (is_entered_) {
    const timespec patience = as_timespec(std::chrono::milliseconds(200));
    is_entered_ = false;
    write(kLeave, &patience);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
}

// Called after Ctrl-Z. Puts the terminal back and stops the process, as the shell expects. When the
// process goes on, sets up the terminal again.
void Terminal::stop() {
  restore();
  sigset_t stop_signal;
  sigemptyset(&stop_signal);
  sigaddset(&stop_signal, SIGTSTP);
  signal(SIGTSTP, SIG_DFL);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop_signal, nullptr);  // stops here, until SIGCONT
  sigprocmask(SIG_BLOCK, &stop_signal, nullptr);
  handle(SIGTSTP);
  tcgetattr(STDIN_FILENO, &before_);
  enter();
}

Terminal::Event Terminal::wait(std::chrono::nanoseconds at_most) {
  const timespec patience = as_timespec(std::max(at_most, std::chrono::nanoseconds(0)));
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = g_ended_by != 0 ? 0 : ppoll(&input, 1, &patience, &mask_before_);
  if (g_ended_by != 0) {
    ended_by_ = g_ended_by;
    return Event::kEnd;
  }
  if (g_stop_wanted != 0) {
    g_stop_wanted = 0;
    stop();
    return Event::kResized;
  }
  if (g_continued != 0) {
    g_continued = 0;
    take_keys();  // after a SIGSTOP, the terminal has the shell's settings
    return Event::kResized;
  }
  if (g_resized != 0) {
    g_resized = 0;
    return Event::kResized;
  }
  if (ready <= 0) {
    return Event::kTime;
  }
  std::array<char, 256> bytes{};
  const ssize_t got = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (got <= 0) {
    return got < 0 && (errno == EINTR || errno == EAGAIN) ? Event::kTime : Event::kEnd;
  }
  typed_.assign(bytes.data(), static_cast<std::size_t>(got));
  return Event::kTyped;
}

void Terminal::draw(std::string_view lines) {
  std::string text = "\x1b[H";
  while (true) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const bool last = end == lines.size();
    // Erases before it writes the line: after a line as wide as the screen, that would erase the
    // last column.
    text += last ? "\x1b[J" : "\x1b[K";
    text += lines.substr(0, end);
    text += "\x1b[0m";
    if (last) {
      break;
    }
    text += "\r\n";
    lines.remove_prefix(end + 1);
  }
  write(text, nullptr);
}

// Writes in small pieces, each when the terminal has room for it, so that signals are obeyed even
// if the terminal is stuck. `patience`: how long to wait for room; NULL: until there is room or a
// signal asks for an end or a stop. False if not all was written.
bool Terminal::write(std::string_view text, const timespec* patience) noexcept {
  constexpr std::size_t kPiece = 256;
  while (!text.empty()) {
    pollfd output{STDOUT_FILENO, POLLOUT, 0};
    const int ready = ppoll(&output, 1, patience, patience == nullptr ? &mask_before_ : nullptr);
    if (patience == nullptr && (g_ended_by != 0 || g_stop_wanted != 0)) {
      return false;
    }
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0 || (output.revents & POLLOUT) == 0) {
      return false;
    }
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), std::min(text.size(), kPiece));
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  return true;
}

void Terminal::leave() {
  restore();
  if (ended_by_ != 0 && ended_by_ != SIGINT) {
    signal(ended_by_, SIG_DFL);
    raise(ended_by_);
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }
}

}  // namespace cubfc::cli::top
