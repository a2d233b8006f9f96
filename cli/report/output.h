// Where a report goes: a file that is there as a whole or not at all, or the standard output. Knows
// nothing of what is written.
#pragma once

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cubfc::report {

// what() names the file.
class CannotWrite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Not thread-safe. Throws CannotWrite.
class Output {
 public:
  // "-" is the standard output. What is there already is replaced when all has been written; where
  // that is no ordinary file (a device, a pipe), it is written to. Nothing is created by this if
  // `path` is the same file as one of the inputs.
  Output(const std::string& path, const std::vector<std::string>& inputs);
  // What was not finished leaves no file behind.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);
  // All is written, and at its place.
  void finish();

 private:
  void open_beside();

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;       // without symbolic links
  std::string temporary_;  // empty: what is written is there at once
  std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace cubfc::report
