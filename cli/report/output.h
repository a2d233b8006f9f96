// Writes a report to a file that appears as a whole or not at all, or to the standard output. Knows
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
  // `path`: "-" is the standard output. A file that is there already is replaced in finish(); a
  // device or a pipe is written to directly. Throws, and has created nothing, if `path` is the same
  // file as one of the inputs.
  Output(const std::string& path, const std::vector<std::string>& inputs);
  // Without finish() leaves no file behind.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);
  // Writes out the rest, and puts the file in its place.
  void finish();

 private:
  void open_beside();

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;       // without symbolic links
  std::string temporary_;  // the file until finish(); empty: path_ is written to directly
  std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace cubfc::report
