// A file as the readers see it: bytes from the beginning to the end, through a window that moves
// with them, and where in it something is wrong. Knows no format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Not thread-safe. What ahead() gave is valid until the next call. Every function but the
// constructor from memory throws BadRecording when the file cannot be read.
class Input {
 public:
  explicit Input(const std::string& path);
  // For tests: bytes that are there already, under a name for messages. They must outlive it.
  Input(std::string name, std::string_view bytes);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  // What comes next, at least so many bytes; fewer only where the file ends. Host memory grows by
  // what is really there, whatever is asked for.
  std::string_view ahead(std::size_t bytes) {
    return end_ - begin_ >= bytes ? window() : ahead_after_reading(bytes);
  }
  // Moves on; false when the file ends before that.
  bool skip(std::uint64_t bytes);
  // The next line without its end ("\n" or "\r\n"), which is skipped; false at the end of the file.
  // Fails on one of more than `at_most` bytes.
  bool line(std::string_view& text, std::size_t at_most);

  // Whether line() has given a line without an end, which is the last one.
  bool is_without_end() const { return is_without_end_; }

  // Bytes before what comes next.
  std::uint64_t offset() const { return offset_; }
  const std::string& name() const { return name_; }

  // "NAME: byte 17: " and the text.
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
  const char* data_ = nullptr;  // the window: [begin_, end_) of what is here
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace cubfc::recordings
