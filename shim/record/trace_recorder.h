// Writes the trace (CUBFC_TRACE): whatever thread has something to record puts it into a buffer,
// and the one that fills the buffer writes it to the file (trace_file.h). Knows what a record is
// (trace_format.h), not what it is for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "arena/figures.h"
#include "shim/record/python_stacks.h"
#include "shim/record/stacks.h"
#include "shim/record/trace_file.h"
#include "shim/tell/trace_format.h"

namespace cubfc {

// Thread-safe, without a lock that one record waits for behind another: a record has its place in
// the file by one atomic addition, so records stand there in the order in which they were begun.
// Whoever records under a lock so has them in that lock's order. A thread waits only when it comes
// round to a buffer that another one is still writing to the file. No call is a cancellation point.
class TraceRecorder {
 public:
  struct Settings {
    std::string path;               // %p and %h replaced
    std::uint64_t limit_bytes = 0;  // of the file
    std::uint32_t stack_depth = 0;
    bool tensors = false;  // where stacks are recorded
    std::string text;      // the settings in force, for people
  };
  // nullptr when no file can be made; the log says why. A file of that name that a process writes
  // right now is left alone: this one's is PATH.PID then. Throws std::bad_alloc.
  static std::unique_ptr<TraceRecorder> open(const Settings& settings);
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  std::uint32_t stack_depth() const noexcept { return stacks_.depth(); }
  bool records_tensors() const noexcept { return records_tensors_; }

  // What happens, see trace::Kind. The time and the thread are added.
  struct What {
    trace::Kind kind;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t padding = 0;
    std::uint8_t place = 0;
    std::uint8_t caller = 0;
  };
  void record(const What& what) noexcept;
  // The same for each of these, for little more than one.
  void record(const What& what, std::span<const arena::FreedBlock> each) noexcept;
  // With a payload, whose length becomes `bytes`.
  void record(What what, const void* payload, std::size_t payload_bytes) noexcept;
  void record(const What& what, std::string_view text) noexcept {
    record(what, text.data(), text.size());
  }

  // A new place, and its number.
  std::uint8_t begin_place(const trace::PlaceText& place) noexcept;
  void end_place(std::uint8_t place) noexcept;

  // See Stacks::capture() and PythonStacks::capture(): for the next allocation that the calling
  // thread records.
  void capture_stack(const void* return_address) noexcept;
  // Before the allocation's own record.
  void record_stack() noexcept;

  // Writes what there is to the file now, as far as it is whole.
  void flush() noexcept;
  // If it had to stop: says so, once. Where nothing is locked.
  void tell_problem() noexcept;
  // The process ends in order: nothing is recorded any more.
  void close() noexcept;

 private:
  static constexpr std::size_t kBufferBytes = 256 * 1024;
  static constexpr std::size_t kBuffers = 4;
  struct Buffer {
    // Twice how often it has been written out; odd when that is just being finished.
    std::atomic<std::uint64_t> turn{0};
    std::atomic<std::uint64_t> filled{0};    // bytes, in this turn
    std::atomic<std::uint32_t> flushing{0};  // threads that write a part of it out: flush()
    alignas(trace::Record) std::array<std::byte, kBufferBytes> bytes;
  };

  // Numbers of places that are there. Thread-safe.
  class Places {
   public:
    // 255 where all are taken, whose places cannot be told apart.
    std::uint8_t take() noexcept;
    void give_back(std::uint8_t place) noexcept;

   private:
    std::mutex mutex_;
    std::array<bool, 256> taken_{};  // guarded by the mutex
  };

  TraceRecorder(std::unique_ptr<TraceFile> file, const Settings& settings);
  void begin(const Settings& settings);
  void capture_python(bool is_in_python);
  std::uint64_t now_ns() const noexcept;
  std::uint16_t thread_number() noexcept;
  std::uint16_t new_thread() noexcept;
  bool reserve(std::uint64_t bytes, std::uint64_t& at) noexcept;
  void full(std::uint64_t at) noexcept;
  Buffer* buffer_at(std::uint64_t at) noexcept;
  template <typename IsSo>
  bool waits_until(IsSo is_so) noexcept;
  // Of the buffer for part number `number` of the file, when it is for that part.
  static std::uint64_t turn_of(std::uint64_t number) { return number / kBuffers * 2; }
  static_assert(kBufferBytes % sizeof(trace::Record) == 0);
  void filled(Buffer& buffer, std::uint64_t at, std::size_t bytes) noexcept;
  void copy(std::uint64_t at, const void* data, std::size_t bytes) noexcept;
  void write_out(Buffer& buffer, std::uint64_t start, std::size_t bytes) noexcept;
  const std::unique_ptr<TraceFile> file_;
  const std::uint64_t limit_;
  const bool records_tensors_;
  Stacks stacks_;
  PythonStacks python_stacks_;
  const std::uint64_t number_;    // no other recorder of the process has it
  const std::uint64_t start_ns_;  // of the monotonic clock
  std::unique_ptr<std::array<Buffer, kBuffers>> buffers_;

  alignas(64) std::atomic<std::uint64_t> head_{0};  // bytes of the file that are given away
  std::atomic<bool> stopped_{false};
  std::atomic<bool> is_stuck_{false};  // a thread was waited for in vain: see waits_until()
  std::atomic<std::uint64_t> end_{~std::uint64_t{0}};  // of the file, once it is full
  std::atomic<std::uint32_t> threads_{0};

  Places places_;
};

}  // namespace cubfc
