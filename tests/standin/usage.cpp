#include "usage.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "settings.h"

namespace standin {
namespace {

class Private final : public Usage {
 public:
  bool Take(int device, std::size_t bytes, std::size_t capacity) override {
    const std::scoped_lock lock(mutex_);
    std::size_t& used = used_[device];
    if (bytes > capacity || used > capacity - bytes) return false;
    used += bytes;
    most_[device] = std::max(most_[device], used);
    return true;
  }
  void Give(int device, std::size_t bytes) override {
    const std::scoped_lock lock(mutex_);
    used_[device] -= bytes;
  }
  std::size_t Used(int device) override {
    const std::scoped_lock lock(mutex_);
    return used_[device];
  }
  std::size_t Most(int device) override {
    const std::scoped_lock lock(mutex_);
    return most_[device];
  }

 private:
  std::mutex mutex_;
  std::size_t used_[kMaxDevices] = {};
  std::size_t most_[kMaxDevices] = {};
};

constexpr char kMagic[8] = "standin";
constexpr int kMaxProcesses = 256;

// A process has the lock of its entry's byte for as long as it has this mapped: until it ends, and
// so do children that it has forked and that have executed nothing, as with a GPU's files.
struct Board {
  char magic[8];
  pthread_mutex_t mutex;  // robust: a process may die with it
  struct Process {
    bool taken;
    std::uint64_t end_ns;  // when it was first seen that it has ended; 0: not yet
    std::size_t used[kMaxDevices];
  } processes[kMaxProcesses];
  std::size_t most[kMaxDevices];  // of all of them together
};

[[noreturn]] void Refuse(const std::string& path, const char* what) {
  std::fprintf(stderr, "standin: STANDIN_SHARED=%s: %s\n", path.c_str(), what);
  std::abort();
}

void Format(Board& board) {
  std::memset(&board, 0, sizeof(board));
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&board.mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  std::memcpy(board.magic, kMagic, sizeof(kMagic));
}

Board* Map(const std::string& path, int fd) {
  flock(fd, LOCK_EX);  // one process formats the file
  struct stat info {};
  fstat(fd, &info);
  if (info.st_size == 0 && ftruncate(fd, sizeof(Board)) != 0) Refuse(path, std::strerror(errno));
  if (info.st_size != 0 && info.st_size != sizeof(Board)) {
    Refuse(path, "is not a file of this driver");
  }
  void* const map = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) Refuse(path, std::strerror(errno));
  auto* const board = static_cast<Board*>(map);
  // Also when whoever made it was killed before it was done.
  if (board->magic[0] == '\0') Format(*board);
  if (std::memcmp(board->magic, kMagic, sizeof(kMagic)) != 0) {
    Refuse(path, "is not a file of this driver");
  }
  flock(fd, LOCK_UN);  // the mapping would keep it
  return board;
}

struct flock LockOf(int entry) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = entry;
  range.l_len = 1;
  return range;
}

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

class Shared final : public Usage {
 public:
  explicit Shared(const std::string& path) : path_(path) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) Refuse(path, std::strerror(errno));
    board_ = Map(path, fd);
    const Lock lock(*board_);
    DropDead();
    for (int i = 0; i < kMaxProcesses && self_ == nullptr; ++i) {
      struct flock range = LockOf(i);
      if (board_->processes[i].taken || fcntl(fd, F_OFD_SETLK, &range) != 0) continue;
      self_ = &board_->processes[i];
      *self_ = {.taken = true, .end_ns = 0, .used = {}};
    }
    if (self_ == nullptr) Refuse(path, "too many processes share it");
    close(fd);
  }

  bool Take(int device, std::size_t bytes, std::size_t capacity) override {
    const Lock lock(*board_);
    if (!Fits(device, bytes, capacity)) {
      DropDead();
      if (!Fits(device, bytes, capacity)) return false;
    }
    self_->used[device] += bytes;
    if (Sum(device) > board_->most[device]) {
      DropDead();
      board_->most[device] = std::max(board_->most[device], Sum(device));
    }
    return true;
  }
  void Give(int device, std::size_t bytes) override {
    const Lock lock(*board_);
    self_->used[device] -= bytes;
  }
  std::size_t Used(int device) override {
    const Lock lock(*board_);
    DropDead();
    return Sum(device);
  }
  std::size_t Most(int device) override {
    const Lock lock(*board_);
    return board_->most[device];
  }

 private:
  class Lock {
   public:
    explicit Lock(Board& board) : mutex_(board.mutex) {
      if (pthread_mutex_lock(&mutex_) == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
    }
    ~Lock() { pthread_mutex_unlock(&mutex_); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    pthread_mutex_t& mutex_;
  };

  std::size_t Sum(int device) const {
    std::size_t sum = 0;
    for (const Board::Process& process : board_->processes) sum += process.used[device];
    return sum;
  }
  bool Fits(int device, std::size_t bytes, std::size_t capacity) const {
    const std::size_t used = Sum(device);
    return bytes <= capacity && used <= capacity - bytes;
  }
  void DropDead() {
    const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    for (int i = 0; i < kMaxProcesses && fd >= 0; ++i) {
      Board::Process& process = board_->processes[i];
      if (!process.taken || &process == self_) continue;
      struct flock range = LockOf(i);
      if (process.end_ns == 0 && fcntl(fd, F_OFD_GETLK, &range) == 0 && range.l_type == F_UNLCK) {
        process.end_ns = NowNs();
      }
      if (process.end_ns != 0 &&
          NowNs() - process.end_ns >= static_cast<std::uint64_t>(settings().teardown.count())) {
        process = {};
      }
    }
    if (fd >= 0) close(fd);
  }

  const std::string path_;
  Board* board_ = nullptr;
  Board::Process* self_ = nullptr;
};

}  // namespace

std::unique_ptr<Usage> PrivateUsage() {
  return std::make_unique<Private>();
}

std::unique_ptr<Usage> SharedUsage(const std::string& path) {
  return std::make_unique<Shared>(path);
}

}  // namespace standin
