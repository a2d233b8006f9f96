#include "shim/policy_on_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "shim/meet/descriptor.h"

namespace cubfc {
namespace {

// Why a file with this owner and mode may not enforce settings; empty if it may.
std::string why_it_may_not_enforce(const struct stat& status) {
  if (status.st_uid != 0) {
    return "it is not root's";
  }
  return (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ? "others than root may write it" : "";
}

// Whether a file that cannot be read may enforce something, as one of root's may. But not if it is
// empty, or a device: a sandbox that hides the policy file from its programs puts one of these in
// its place.
bool may_enforce_unread(const char* path) {
  struct stat status {};
  return stat(path, &status) == 0 && why_it_may_not_enforce(status).empty() &&
         (S_ISDIR(status.st_mode) || (S_ISREG(status.st_mode) && status.st_size > 0));
}

config::PolicyFile unreadable(const char* path, const std::string& why) {
  config::PolicyFile file;
  file.path = path;
  if (may_enforce_unread(path)) {
    file.unusable = std::string(path) + ": " + why;
  } else {
    file.problems.push_back(std::string(path) + ": " + why + "; nothing of it is in force");
  }
  return file;
}

}  // namespace

config::PolicyFile read_policy_file(const char* path) {
  const Descriptor file(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    return errno == ENOENT || errno == ENOTDIR ? config::PolicyFile{}
                                               : unreadable(path, std::strerror(errno));
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return unreadable(path, std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return unreadable(path, "it is no file");
  }
  if (status.st_size > static_cast<off_t>(config::kLargestPolicyFile)) {
    return unreadable(path, "it is larger than 1 MiB");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t more = read(file.get(), text.data() + length, text.size() - length);
    if (more < 0 && errno != EINTR) {
      return unreadable(path, std::strerror(errno));
    }
    if (more == 0) {
      break;
    }
    length += more > 0 ? static_cast<std::size_t>(more) : 0;
  }
  text.resize(length);
  return config::parse_policy_file(path, text, why_it_may_not_enforce(status));
}

}  // namespace cubfc
