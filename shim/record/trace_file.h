// The file of a trace: made, locked, written to and told of. Knows nothing of what is in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cubfc {

// Thread-safe. No descriptor of it stays open: the program may close it, and open something else
// under its number. The file of a process that writes one is locked, by a page that is mapped; a
// child that is forked has neither.
class TraceFile {
 public:
  // An empty file at this path, or nullptr: errno says what is wrong, EWOULDBLOCK that a process
  // writes it right now, EINVAL that it is no regular file. Throws std::bad_alloc.
  static std::unique_ptr<TraceFile> open(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // Of a file of `wanted` bytes, as many as the program may write: beyond that a signal would end
  // it.
  static std::uint64_t allowed_bytes(std::uint64_t wanted);

  // False when nothing more is to be written: see tell_problem(). No cancellation point.
  bool write(const void* data, std::size_t bytes, std::uint64_t at) noexcept;
  // It has got as many bytes as it may.
  void is_full() noexcept { note(Problem::kFull, 0); }
  // A thread that is in write(), or about to be, has not come back for a long time.
  void is_stuck() noexcept { note(Problem::kStuck, 0); }
  // If one of these was false or called: says why, once. `most_bytes`: of it. Where nothing is
  // locked.
  void tell_problem(std::uint64_t most_bytes) noexcept;

  const std::string& path() const { return path_; }

 private:
  enum class Problem : std::uint8_t { kNone, kFull, kStuck, kReplaced, kCannotWrite };
  TraceFile(std::string path, std::uint64_t device, std::uint64_t inode, void* mapped);
  void note(Problem problem, int error) noexcept;

  const std::string path_;  // absolute
  // Which file it is, whatever lies at the path.
  const std::uint64_t device_;
  const std::uint64_t inode_;
  void* const mapped_;  // a page of it, which keeps it locked without a descriptor
  std::atomic<Problem> problem_{Problem::kNone};
  std::atomic<int> error_{0};
  std::atomic<bool> told_{false};
};

}  // namespace cubfc
