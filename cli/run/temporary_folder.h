// A folder for what a run writes.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "cli/failure.h"

namespace cubfc::cli {

// A folder below $TMPDIR. The destructor removes it, with all that is in it.
class TemporaryFolder {
 public:
  // `name`: the beginning of the folder's name. Where no folder can be made, path() is empty, and
  // errno says why.
  explicit TemporaryFolder(const std::string& name)
      : pattern_((std::filesystem::temp_directory_path() / (name + "-XXXXXX")).string()) {
    std::string made = pattern_;
    if (mkdtemp(made.data()) != nullptr) {
      path_ = made;
    }
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  const std::string& pattern() const { return pattern_; }  // for a message
  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  const std::string pattern_;
  std::string path_;
};

// Makes a folder in `folder`, which must be there. Returns its path. Throws Failure.
inline std::string folder_within(const std::string& folder, const std::string& name) {
  std::string path = folder + '/' + name;
  std::error_code failed;
  std::filesystem::create_directory(path, failed);
  if (failed) {
    throw Failure{"no folder " + path + " can be made: " + failed.message()};
  }
  return path;
}

}  // namespace cubfc::cli
