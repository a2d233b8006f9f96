#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "cli/report/text_table.h"

namespace cubfc::cli {
namespace {

constexpr std::chrono::milliseconds kFirst{500};
constexpr std::chrono::milliseconds kBetween{100};
constexpr std::chrono::seconds kBetweenLines{10};
constexpr std::size_t kUsualColumns = 79;
constexpr std::size_t kFewestColumns = 20;

}  // namespace

ProgressLine::ProgressLine(Elsewhere elsewhere)
    : is_on_(::isatty(STDERR_FILENO) == 1),
      tells_in_lines_(!is_on_ && elsewhere == Elsewhere::kLines),
      next_(std::chrono::steady_clock::now()) {
  next_ += tells_in_lines_ ? std::chrono::milliseconds(kBetweenLines) : kFirst;
}

ProgressLine::~ProgressLine() {
  if (is_there_) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }
}

void ProgressLine::show(const std::string& what, double share) {
  const auto now = std::chrono::steady_clock::now();
  if ((!is_on_ && !tells_in_lines_) || now < next_) {
    return;
  }
  const std::string text = what + ": " + std::to_string(std::lround(share * 100)) + '%';
  if (tells_in_lines_) {
    next_ = now + kBetweenLines;
    std::fprintf(stderr, "%s\n", text.c_str());
  } else {
    next_ = now + kBetween;
    write(text);
  }
}

void ProgressLine::show(const std::string& what) {
  if (is_on_) {
    write(what + " ...");
  }
}

// Cuts the text to one row of the terminal: of a longer one only the last row would be erased.
void ProgressLine::write(const std::string& text) {
  is_there_ = true;
  winsize window{};
  ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
  const std::size_t most = window.ws_col > kFewestColumns ? window.ws_col - 1U : kUsualColumns;
  std::fprintf(stderr, "\r\033[K%s", report::beginning_of(text, most).c_str());
  std::fflush(stderr);
}

}  // namespace cubfc::cli
