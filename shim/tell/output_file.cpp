#include "shim/tell/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "shim/tell/format.h"
#include "shim/tell/no_signal.h"

namespace cubfc {
namespace {

constexpr int kFlags = O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;

std::string in_words(int error) {
  return error == 0       ? ""
         : error == ELOOP ? "is a symbolic link, which is not followed"
                          : std::strerror(error);
}

// Writes all of the text, and closes the file. Returns errno, or 0 if all is well.
int write_and_close(int file, const std::string& text) {
  int error = 0;
  for (std::size_t written = 0; written < text.size() && error == 0;) {
    const ssize_t more = write(file, text.data() + written, text.size() - written);
    if (more > 0) {
      written += static_cast<std::size_t>(more);
    } else if (more == 0 || errno != EINTR) {
      error = more == 0 ? EIO : errno;
    }
  }
  return close(file) != 0 && error == 0 ? errno : error;
}

int replace(const std::string& path, const std::string& text) {
  struct stat status {};
  const bool exists = lstat(path.c_str(), &status) == 0;
  if (exists && S_ISLNK(status.st_mode)) {
    return ELOOP;
  }
  const bool replaces = !exists || S_ISREG(status.st_mode);
  const std::string name = replaces ? format("{}.{}.part", path, getpid()) : path;
  if (replaces) {
    unlink(name.c_str());
  }
  const int file = open(name.c_str(), kFlags | (replaces ? O_CREAT | O_EXCL : 0), 0666);
  if (file < 0) {
    return errno;
  }
  int error = write_and_close(file, text);
  if (error == 0 && replaces && rename(name.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0 && replaces) {
    unlink(name.c_str());
  }
  return error;
}

}  // namespace

std::string replace_file(const std::string& path, const std::string& text) {
  const NoSignal no_sigxfsz(SIGXFSZ);
  const NoSignal no_sigpipe(SIGPIPE);
  return in_words(replace(path, text));
}

std::string append_to_file(const std::string& path, const std::string& text) {
  const NoSignal no_sigxfsz(SIGXFSZ);
  const NoSignal no_sigpipe(SIGPIPE);
  const int file = open(path.c_str(), kFlags | O_CREAT | O_APPEND, 0666);
  return in_words(file < 0 ? errno : write_and_close(file, text));
}

}  // namespace cubfc
