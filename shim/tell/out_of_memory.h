// When an allocation that failed for lack of memory is told of, and in how many words
// (out_of_memory_text.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "config/policy.h"
#include "shim/tell/out_of_memory_text.h"

namespace cubfc {

// Writes the reports. Thread-safe.
//
// Many a program that is refused frees what it keeps and asks again: a thread's first failure is a
// line. The full report comes with its second one, unless it was served as much between; and at the
// process's end, where it never was. Programs that find out by trying how much there is fail again
// and again: a full report comes at most once a minute, between two a line. What can never be had
// gets lines only, apart from those. The first line comes at once, each next one after twice the
// time, up to a minute; after two quiet minutes as at first.
class OutOfMemoryReporter {
 public:
  explicit OutOfMemoryReporter(const config::Policy& policy) : policy_(policy) {}

  // Finds out what there is to say; with kAll also the blocks. Called when something is due, on
  // this thread.
  enum class Detail : bool { kFacts, kAll };
  enum class Request : bool { kPossible, kImpossible };  // whether it can ever be had
  // Returns what was found out, for the trace: empty when nothing was due. What is found out in
  // full also goes to the file that CUBFC_OOM_REPORT names, as JSON.
  std::string report(Request request, std::uint64_t bytes,
                     const std::function<OutOfMemory(Detail)>& find_out) noexcept;

  // Whether requests that are served are to be told of: a thread has failed, and may try again.
  // Ends after so many of them that it has gone on without.
  bool listens() const noexcept { return heard_of_.load(std::memory_order_relaxed) > 0; }
  // This thread was served so many bytes.
  void served(std::uint64_t bytes) noexcept;

  // At the process's end.
  void finish() noexcept;

 private:
  // A thread that has failed, and was not served as much since.
  struct Waiting {
    long thread;
    std::uint64_t bytes;
    std::string
        report;  // of its first failure, in full; empty once the thread's second was told of
  };

  // Whether this thread waits; else it does from now on.
  bool waits_already(std::uint64_t bytes);
  void keep_for_end(std::string&& report);
  void tell(const std::string& text) const;
  void write_json(const OutOfMemory& failure) const;

  struct Lines {
    std::atomic<std::int64_t> next_ns{0};   // of the steady clock
    std::atomic<std::int64_t> pause_ns{0};  // between two
    std::atomic<std::uint64_t> left_out{0};
  };
  static bool is_line_due(Lines& lines, std::int64_t now);

  static constexpr int kMostHeardOf = 10'000;
  static constexpr std::size_t kMostWaiting = 64;  // threads; of more the first are forgotten

  const config::Policy& policy_;
  std::atomic<int> heard_of_{0};  // requests that are still to be told of
  std::mutex mutex_;
  std::vector<Waiting> waiting_;
  std::atomic<std::int64_t> next_full_ns_{0};
  Lines possible_;
  Lines impossible_;
};

}  // namespace cubfc
