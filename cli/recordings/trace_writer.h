// Writes files as CUBFC_TRACE does (shim/tell/trace_format.h): what was replayed, and what tests
// make up.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// what() names the file.
class CannotWrite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Events of one Recording, in their order; the same events give the same bytes. Places, threads and
// callers are named before their first event. Stacks are left out: their addresses are not known
// any more. Not thread-safe. Throws CannotWrite.
class TraceWriter {
 public:
  // Of `names` all but the events is used; it must outlive the writer. What is at `path` already is
  // overwritten.
  TraceWriter(const std::string& path, const Recording& names);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  ~TraceWriter() = default;  // what is left may not get into the file, without a word

  // kOutOfMemory and kNote with the text of `names` that they say, or with that one.
  void write(const Event& event);
  void write(const Event& event, std::string_view text);
  // All is in the file. Nothing may be written any more.
  void close();

 private:
  void put(const void* data, std::size_t bytes);
  void put(trace::Kind kind, trace::Record record, std::string_view payload);
  void put_header();
  std::uint8_t number_of_place(std::uint32_t place);
  std::uint8_t free_number();

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  const std::string path_;
  const Recording& names_;
  const std::unique_ptr<char[]> buffer_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::array<std::uint32_t, 256> place_of_number_;  // kNone: none; 0 is not given to any
  std::vector<std::uint8_t> number_of_place_;       // 0: it has none now
  std::vector<bool> thread_is_named_;
  std::vector<bool> caller_is_named_;
};

// A whole Recording, but for its stacks.
void write_trace(const std::string& path, const Recording& recording);

}  // namespace cubfc::recordings
