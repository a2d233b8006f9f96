// What another process lets this one reach.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <string>

namespace standin {

// The file behind a descriptor of that process, opened here and the caller's to close; -1 where
// that cannot be had, because the process is gone for example.
inline int OpenFileOf(pid_t owner, int fd) {
  const std::string path = "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(fd);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace standin
