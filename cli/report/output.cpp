#include "cli/report/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace cubfc::report {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw CannotWrite(path + ": " + std::strerror(error));
}

std::string without_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real{::realpath(path.c_str(), nullptr),
                                                         &std::free};
  return real == nullptr ? path : std::string(real.get());
}

// The mode that a file made by open() would have; mkostemp() makes its own readable to nobody else.
mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

Output::Output(const std::string& path, const std::vector<std::string>& inputs) {
  if (path == "-") {
    path_ = "standard output";
    file_.reset(::fdopen(::dup(STDOUT_FILENO), "w"));
    if (file_ == nullptr) {
      fail(path_, errno);
    }
    return;
  }
  path_ = without_links(path);
  struct stat there {};
  const bool exists = ::stat(path_.c_str(), &there) == 0;
  const auto is_there = [&](const std::string& input) {
    struct stat in {};
    return ::stat(input.c_str(), &in) == 0 && in.st_dev == there.st_dev &&
           in.st_ino == there.st_ino;
  };
  if (exists && std::ranges::any_of(inputs, is_there)) {
    throw CannotWrite(path + ": is the recording itself, and stays as it is");
  }
  if (exists && !S_ISREG(there.st_mode)) {
    file_.reset(std::fopen(path_.c_str(), "we"));
    if (file_ == nullptr) {
      fail(path_, errno);
    }
    return;
  }
  open_beside();
}

void Output::open_beside() {
  temporary_ = path_ + ".XXXXXX";
  const int file = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (file < 0) {
    const int error = errno;
    temporary_.clear();
    fail(path_, error);
  }
  ::fchmod(file, mode_of_new_files());
  file_.reset(::fdopen(file, "w"));
}

Output::~Output() {
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void Output::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) {
    fail(path_, errno);
  }
}

void Output::finish() {
  if (std::fflush(file_.get()) != 0 || std::fclose(file_.release()) != 0) {
    fail(path_, errno);
  }
  if (temporary_.empty()) {
    return;
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail(path_, errno);
  }
  temporary_.clear();
}

}  // namespace cubfc::report
