// A runtime folder of a test's own, in which processes meet.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace cubfc::test {

// XDG_RUNTIME_DIR names it from now on; a forked child leaves it there.
struct RuntimeFolder {
  RuntimeFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cubfc-test-XXXXXX").string();
    path = mkdtemp(pattern.data());
    setenv("XDG_RUNTIME_DIR", path.c_str(), 1);
  }
  ~RuntimeFolder() {
    if (getpid() == pid) {
      std::filesystem::remove_all(path);
    }
  }
  RuntimeFolder(const RuntimeFolder&) = delete;
  RuntimeFolder& operator=(const RuntimeFolder&) = delete;

  const pid_t pid = getpid();
  std::string path;
};

}  // namespace cubfc::test
