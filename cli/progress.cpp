#include "cli/progress.h"

#include <unistd.h>

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
  const auto now = std::chrono::steady_clock::now();
  if (is_on_ && now >= next_) {
    next_ = now + kBetween;
    is_there_ = true;
    std::fprintf(stderr, "\r\033[K%s: %.0f%%", what.c_str(), share * 100);
    std::fflush(stderr);
  }
}

}  // namespace cubfc::cli
