// Reads a file from its beginning to its end through a window that moves on, and says at which byte
// or line something is wrong. Knows no format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Not thread-safe. What ahead() and line() give is valid until the next call of ahead(), skip() or
// line(). These three and the constructor from a path throw BadRecording when the file cannot be
// read.
class Input {
 public:
  explicit Input(const std::string& path);
  // For tests: reads `bytes` in memory, which must outlive the object. `name` is for messages.
  Input(std::string name, std::string_view bytes);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // The next bytes, at least so many; fewer only where the file ends. The buffer grows only with
  // bytes that the file has, however many are asked for.
  std::string_view ahead(std::size_t bytes) {
    return end_ - begin_ >= bytes ? window() : ahead_after_reading(bytes);
  }
  // Moves on by so many bytes; false when the file ends before that.
  bool skip(std::uint64_t bytes);
  // Gives the next line without its end ("\n" or "\r\n"), and moves on behind that end. False at
  // the end of the file. Throws BadRecording for a line of more than `at_most` bytes.
  bool line(std::string_view& text, std::size_t at_most);

  // Whether the line that line() gave last has no end: it is the last of the file.
  bool is_without_end() const { return is_without_end_; }

  // The number of bytes in the file before those that ahead() gives.
  std::uint64_t offset() const { return offset_; }
  const std::string& name() const { return name_; }

  // Throw BadRecording: "NAME: byte 17: " or "NAME: line 17: ", and the text.
  [[noreturn]] void fail(std::uint64_t byte, const std::string& text) const;
  [[noreturn]] void fail_in_line(std::uint64_t line, const std::string& text) const;

 private:
  std::string_view window() const { return {data_ + begin_, end_ - begin_}; }
  std::string_view ahead_after_reading(std::size_t bytes);

  std::string name_;
  int file_ = -1;
  bool at_end_ = false;  // nothing comes after the window
  bool is_without_end_ = false;
  std::string buffer_;
  const char* data_ = nullptr;  // the window is [begin_, end_) of it
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace cubfc::recordings
