// What tests of readers need: files that go when the test ends, and what a reader says of one.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recordings/input.h"
#include "cli/recordings/own_code.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "cubfc_test_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string file(const std::string& name, std::string_view contents) const {
    std::ofstream(file(name), std::ios::binary)
        .write(contents.data(), static_cast<std::streamsize>(contents.size()));
    return file(name);
  }

 private:
  std::string path_;
};

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The message of the BadRecording that `call` throws; "" when it throws none.
template <typename Call>
std::string complaint(Call call) {
  try {
    call();
    return {};
  } catch (const BadRecording& bad) {
    return bad.what();
  }
}

// The frames of one of its stacks, as people read them.
inline std::vector<std::string> stack_of(const Recording& recording, std::size_t stack) {
  std::vector<std::string> texts;
  for (const std::uint32_t frame : recording.stacks.at(stack)) {
    texts.push_back(frame_text(recording.frames.at(frame)));
  }
  return texts;
}

}  // namespace cubfc::recordings
