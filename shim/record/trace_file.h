// The file of a trace: makes it, locks it, writes to it, and tells of its problems. Knows nothing
// of what is in it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cubfc {

// Thread-safe. Keeps no descriptor open: the program might close it, and open something else under
// its number. The file is locked for this process by a page of it that is mapped, which a forked
// child does not inherit.
class TraceFile {
 public:
  // Makes the file at this path, or empties it, and locks it. nullptr if that fails, with errno
  // set: EWOULDBLOCK if a process is writing it, EINVAL if it is no regular file. Throws
  // std::bad_alloc.
  static std::unique_ptr<TraceFile> open(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // `wanted`, or less if the program may not write so many bytes to a file (RLIMIT_FSIZE): a write
  // beyond that would end the program by a signal.
  static std::uint64_t allowed_bytes(std::uint64_t wanted);

  // Writes at byte `at`. False if that has failed: nothing more must be written then, and
  // tell_problem() says why. No cancellation point.
  bool write(const void* data, std::size_t bytes, std::uint64_t at) noexcept;
  // For tell_problem(): the file has as many bytes as it may have.
  void is_full() noexcept { note(Problem::kFull, 0); }
  // For tell_problem(): a thread that is in write(), or about to be, has not come back for a long
  // time.
  void is_stuck() noexcept { note(Problem::kStuck, 0); }
  // Logs, once, why nothing more was recorded, if write() has failed or one of the other two was
  // called. `most_bytes`: how many the file may have. To be called where nothing is locked.
  void tell_problem(std::uint64_t most_bytes) noexcept;

  const std::string& path() const { return path_; }

 private:
  enum class Problem : int { kNone, kFull, kStuck, kReplaced, kCannotWrite };
  struct Noted {
    Problem problem = Problem::kNone;
    int error = 0;  // errno, of kCannotWrite
  };
  TraceFile(std::string path, std::uint64_t device, std::uint64_t inode, void* mapped);
  void note(Problem problem, int error) noexcept;

  const std::string path_;  // absolute
  // Which file it is, whatever lies at the path.
  const std::uint64_t device_;
  const std::uint64_t inode_;
  void* const mapped_;  // a page of the file, which keeps it locked without a descriptor
  std::atomic<Noted> first_{};
  std::atomic<bool> told_{false};
};

}  // namespace cubfc
