#include "cli/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace cubfc::cli {
namespace {

constexpr std::chrono::milliseconds kFirst{500};
constexpr std::chrono::milliseconds kBetween{100};

}  // namespace

ProgressLine::ProgressLine()
    : is_on_(::isatty(STDERR_FILENO) == 1), next_(std::chrono::steady_clock::now() + kFirst) {}

ProgressLine::~ProgressLine() {
  if (is_there_) {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
  }
}

void ProgressLine::show(const std::string& what, double share) {
  if (const auto now = std::chrono::steady_clock::now(); is_on_ && now >= next_) {
    next_ = now + kBetween;
    write(what + ": " + std::to_string(std::lround(share * 100)) + '%');
  }
}

void ProgressLine::show(const std::string& what) {
  if (is_on_) {
    write(what + " ...");
  }
}

void ProgressLine::write(const std::string& text) {
  is_there_ = true;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

}  // namespace cubfc::cli
