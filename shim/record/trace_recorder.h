// Writes the trace (CUBFC_TRACE). Each thread puts its records into a buffer, and the thread that
// fills a buffer writes it to the file (trace_file.h). Knows what a record is (trace_format.h), not
// what it is for.
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

// Thread-safe. record() takes no lock: a record gets its place in the file by one atomic addition,
// so records stand in the file in the order in which they were begun. Records that are made under
// one lock stand in that lock's order. A thread that records waits in two cases only: when it comes
// round to a buffer that other threads have not filled, or not written to the file, yet; and when
// it has written a full buffer to the file, while flush() on another thread looks at that buffer.
// record(), flush() and close() are no cancellation points.
class TraceRecorder {
 public:
  struct Settings {
    std::string path;               // %p and %h replaced
    std::uint64_t limit_bytes = 0;  // of the file
    std::uint32_t stack_depth = 0;
    bool tensors = false;  // whether to record tensors, if stacks are recorded
    std::string text;      // the settings in force, for people
  };
  // nullptr when no file can be made; the log says why. If another process is writing a file of
  // that name, makes PATH.PID instead. Throws std::bad_alloc.
  static std::unique_ptr<TraceRecorder> open(const Settings& settings);
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  std::uint32_t stack_depth() const noexcept { return stacks_.depth(); }
  bool records_tensors() const noexcept { return records_tensors_; }

  // What is recorded: see trace::Kind. The time and the thread are added.
  struct What {
    trace::Kind kind;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t padding = 0;
    std::uint8_t place = 0;
    std::uint8_t caller = 0;
  };
  void record(const What& what) noexcept;
  // As above, once for each block, with its address and bytes; costs little more than one record.
  void record(const What& what, std::span<const arena::FreedBlock> each) noexcept;
  // As above, with a payload, whose length becomes `bytes`.
  void record(What what, const void* payload, std::size_t payload_bytes) noexcept;
  void record(const What& what, std::string_view text) noexcept {
    record(what, text.data(), text.size());
  }

  // Records that a place begins, and returns its number; records that it ends. A place is an arena,
  // or the memory that the program has of a device by one function (trace::PlaceText).
  std::uint8_t begin_place(const trace::PlaceText& place) noexcept;
  void end_place(std::uint8_t place) noexcept;

  // Called by a hook before any lock of cubfc's is taken. Captures the calling thread's stack,
  // native and Python's, for the next allocation that the thread records. Does nothing where no
  // stacks are recorded. Takes locks. Takes host memory for Python's frames, and for code that the
  // trace does not list yet. So a program that allocates device memory in a signal handler may hang
  // here.
  void capture_stack(const void* return_address) noexcept;
  // Called just before an allocation is recorded: records the captured stack, if there is one.
  void record_stack() noexcept;

  // Writes to the file what has been recorded so far. If another thread does not finish a record
  // for some time, writes nothing.
  void flush() noexcept;
  // Logs, once, why recording has stopped, if it has. To be called where nothing is locked.
  void tell_problem() noexcept;
  // Called when the process ends in order: records a trace::Kind::kClose and flushes. Later calls
  // of record() do nothing.
  void close() noexcept;

 private:
  static constexpr std::size_t kBufferBytes = 256 * 1024;
  static constexpr std::size_t kBuffers = 4;
  struct Buffer {
    // Goes up by 1 when the buffer has been written to the file, and by 1 again when it can be
    // filled anew. So it is odd only in between.
    std::atomic<std::uint64_t> turn{0};
    std::atomic<std::uint64_t> filled{0};    // bytes copied into it in this turn
    std::atomic<std::uint32_t> flushing{0};  // threads in flush() that look at it
    alignas(trace::Record) std::array<std::byte, kBufferBytes> bytes;
  };

  // Gives each place a number. Thread-safe.
  class Places {
   public:
    // A number that no other place has; 255 if there is none, and such places cannot be told apart.
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
  // What Buffer::turn is when the buffer takes part number `number` of the file.
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

  alignas(64) std::atomic<std::uint64_t> head_{0};  // the offset in the file of the next record
  std::atomic<bool> stopped_{false};
  std::atomic<bool> is_stuck_{false};  // waits_until() has waited for a thread in vain
  std::atomic<std::uint64_t> end_{~std::uint64_t{0}};  // where a full or closed file ends
  std::atomic<std::uint32_t> threads_{0};

  Places places_;
};

}  // namespace cubfc
