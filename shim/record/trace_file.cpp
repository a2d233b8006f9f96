#include "shim/record/trace_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "arena/kept_errno.h"
#include "shim/tell/log.h"
#include "shim/tell/no_signal.h"
#include "shim/tell/program.h"

namespace cubfc {
namespace {

std::size_t page_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

bool write_at(int file, const void* data, std::size_t bytes, std::uint64_t at) noexcept {
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const long written = syscall(SYS_pwrite64, file, next, bytes, at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    next += written;
    at += static_cast<std::uint64_t>(written);
    bytes -= static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

std::uint64_t TraceFile::allowed_bytes(std::uint64_t wanted) {
  struct rlimit limit {};
  const bool known = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return known ? std::min<std::uint64_t>(wanted, limit.rlim_cur) : wanted;
}

TraceFile::TraceFile(std::string path, std::uint64_t device, std::uint64_t inode, void* mapped)
    : path_(std::move(path)), device_(device), inode_(inode), mapped_(mapped) {}

TraceFile::~TraceFile() {
  munmap(mapped_, page_bytes());
}

std::unique_ptr<TraceFile> TraceFile::open(const std::string& path) {
  const int file =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (file < 0) {
    return nullptr;
  }
  struct stat status {};
  std::unique_ptr<TraceFile> opened;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    errno = EINVAL;
  } else if (flock(file, LOCK_EX | LOCK_NB) == 0 && ftruncate(file, 0) == 0) {
    void* const mapped = mmap(nullptr, page_bytes(), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) {
      madvise(mapped, page_bytes(), MADV_DONTFORK);
      opened.reset(new TraceFile(absolute_path(path), status.st_dev, status.st_ino, mapped));
    }
  }
  const int error = errno;
  ::close(file);
  errno = error;
  return opened;
}

bool TraceFile::write(const void* data, std::size_t bytes, std::uint64_t at) noexcept {
  const KeptErrno kept;
  const NoSignal no_sigxfsz(SIGXFSZ);
  struct stat status {};
  // By the system calls: the C library's functions are cancellation points.
  const auto file = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file < 0) {
    note(Problem::kCannotWrite, errno);
    return false;
  }
  bool is_written = false;
  if (fstat(file, &status) != 0 || status.st_dev != device_ || status.st_ino != inode_) {
    note(Problem::kReplaced, 0);
  } else if (!write_at(file, data, bytes, at)) {
    note(Problem::kCannotWrite, errno);
  } else {
    is_written = true;
  }
  syscall(SYS_close, file);
  return is_written;
}

// Keeps the first problem until tell_problem() is called.
void TraceFile::note(Problem problem, int error) noexcept {
  Noted none;
  first_.compare_exchange_strong(none, {problem, error});
}

void TraceFile::tell_problem(std::uint64_t most_bytes) noexcept {
  const auto [problem, error] = first_.load();
  if (problem == Problem::kNone || told_.exchange(true)) {
    return;
  }
  const char* what = std::strerror(error);
  switch (problem) {
    case Problem::kFull:
      log::warn("CUBFC_TRACE: {} has {}, which is the limit; nothing more was recorded", path_,
                log::bytes(most_bytes));
      return;
    case Problem::kStuck:
      what = "a thread that writes to it does not come back";
      break;
    case Problem::kReplaced:
      what = "has been removed, renamed or replaced";
      break;
    default:
      break;
  }
  log::warn("CUBFC_TRACE: {}: {}; nothing more was recorded", path_, what);
}

}  // namespace cubfc
