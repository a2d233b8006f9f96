// Writes files as CUBFC_TRACE does (shim/tell/trace_format.h), for `cubfc replay --trace` and
// tests.
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

// Writes the events of one Recording, in their order; the same events give the same bytes. Places,
// threads and callers are named before their first event. Stacks are left out: a Recording does not
// have their addresses. Not thread-safe. Throws CannotWrite.
class TraceWriter {
 public:
  // `names` says what the events refer to, and must outlive the writer. The events in `names` are
  // not used. A file at `path` is overwritten.
  TraceWriter(const std::string& path, const Recording& names);
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  ~TraceWriter() = default;  // without close(): closes the file, and does not tell of an error

  // The payload of a kOutOfMemory or a kNote is `text`; without `text`, Event::text of `names`.
  void write(const Event& event);
  void write(const Event& event, std::string_view text);
  // Writes what is buffered, and closes the file. Nothing may be written after that.
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
  std::array<std::uint32_t, 256> place_of_number_;  // kNone: none; no place gets number 0
  std::vector<std::uint8_t> number_of_place_;       // 0: the place has none now
  std::vector<bool> thread_is_named_;
  std::vector<bool> caller_is_named_;
};

// Writes a whole Recording, but for its stacks.
void write_trace(const std::string& path, const Recording& recording);

}  // namespace cubfc::recordings
