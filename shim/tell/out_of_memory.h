// Decides when the user is told of an allocation that failed for lack of memory, and in how many
// words (out_of_memory_text.h).
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
// Many programs react to a failure by freeing memory that they cache, and ask again. So a thread's
// first failure gets only a line. The full report comes with the thread's second failure, or else
// at the process's end. When the thread gets as many bytes by one request, the failure is
// forgotten. Other programs fail again and again, to find out how much there is. So a full report
// comes at most once a minute, with lines in between. The first line comes at once. Each pause
// between lines is twice as long as the pause before, a minute at most. After two minutes without a
// line the pauses start anew, at one second. A request that can never succeed gets lines only, with
// pauses of their own.
class OutOfMemoryReporter {
 public:
  explicit OutOfMemoryReporter(const config::Policy& policy) : policy_(policy) {}

  // If a line or a report is to be written, report() calls `find_out` on this thread, to get the
  // facts for it. kFacts: only the facts and the arena's figures are needed.
  enum class Detail : bool { kFacts, kAll };
  enum class Request : bool { kPossible, kImpossible };  // whether it can ever succeed
  // Returns the full report if there is one, else the line that was written, for the trace; empty
  // if nothing was due. What is found out with kAll is also appended to the file of
  // CUBFC_OOM_REPORT, as JSON.
  std::string report(Request request, std::uint64_t bytes,
                     const std::function<OutOfMemory(Detail)>& find_out) noexcept;

  // Whether served() is to be called: a request of a thread has failed, and the thread may try
  // again. False after kMostHeardOf calls of served(): by then the thread has gone on without the
  // memory, it is assumed.
  bool listens() const noexcept { return heard_of_.load(std::memory_order_relaxed) > 0; }
  // Called when this thread was served so many bytes.
  void served(std::uint64_t bytes) noexcept;

  // Called at the process's end: writes the last of the full reports that are still due.
  void finish() noexcept;

 private:
  // A thread whose last failed request was for `bytes`, and that has got no such request since.
  struct Waiting {
    long thread;
    std::uint64_t bytes;
    std::string report;  // the full report of its first failure; empty once a later one is written
  };

  // Whether this thread is in waiting_; adds it if not.
  bool waits_already(std::uint64_t bytes);
  void keep_for_end(std::string&& report);
  void tell(const std::string& text) const;
  void write_json(const OutOfMemory& failure) const;

  struct Lines {
    std::atomic<std::int64_t> next_ns{0};   // when the next line is due, by the steady clock
    std::atomic<std::int64_t> pause_ns{0};  // between the last two
    std::atomic<std::uint64_t> left_out{0};
  };
  static bool is_line_due(Lines& lines, std::int64_t now);

  static constexpr int kMostHeardOf = 10'000;
  static constexpr std::size_t kMostWaiting = 64;  // threads; if there are more, the first are
                                                   // forgotten

  const config::Policy& policy_;
  std::atomic<int> heard_of_{0};  // how many more requests served() is to be called for
  std::mutex mutex_;
  std::vector<Waiting> waiting_;
  std::atomic<std::int64_t> next_full_ns_{0};
  Lines possible_;
  Lines impossible_;
};

}  // namespace cubfc
