#include "shim/shared_blocks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

#include "shim/log.h"

namespace cubfc {
namespace {

// Where folders are looked for and made: in memory before on disk.
constexpr std::array<const char*, 2> kPlaces{"/dev/shm", "/tmp"};

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) {
      close(value_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return value_; }
  explicit operator bool() const { return value_ >= 0; }
  int release() {
    const int value = value_;
    value_ = -1;
    return value;
  }

 private:
  int value_;
};

std::string folder_in(const char* place) {
  return format("{}/cubfc-{}", place, geteuid());
}

// Another user may have made a folder or a file of our name.
bool is_ours_alone(int descriptor, mode_t type) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && (status.st_mode & S_IFMT) == type &&
         status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

Descriptor open_folder(const std::string& path) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return folder && is_ours_alone(folder.get(), S_IFDIR) ? std::move(folder) : Descriptor(-1);
}

Descriptor open_file(int folder, const char* name, int flags) {
  return Descriptor(openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

// Removes the files that nobody has locked. An owner that has just made its file notices.
void remove_files_of_the_dead(const std::string& path, const Descriptor& folder) {
  DIR* listing = opendir(path.c_str());
  if (listing == nullptr) {
    return;
  }
  while (const dirent* entry = readdir(listing)) {
    const Descriptor file = open_file(folder.get(), entry->d_name, O_RDONLY | O_NONBLOCK);
    if (file && is_ours_alone(file.get(), S_IFREG) && flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      unlinkat(folder.get(), entry->d_name, 0);
    }
  }
  closedir(listing);
}

std::string name_of_file(pid_t owner, std::uint64_t key) {
  return format("{}-{:016x}", owner, key);
}

}  // namespace

bool SharedBlocks::start() {
  for (const char* place : kPlaces) {
    const std::string path = folder_in(place);
    mkdir(path.c_str(), S_IRWXU);
    const Descriptor folder = open_folder(path);
    if (!folder) {
      continue;
    }
    remove_files_of_the_dead(path, folder);
    // Another process may remove the file before it is locked, but hardly twice.
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (make_file(path, folder.get())) {
        return true;
      }
    }
  }
  return false;
}

bool SharedBlocks::make_file(const std::string& path, int folder) {
  constexpr std::size_t kBytes = kSlots * sizeof(Slot);
  if (getrandom(&key_, sizeof(key_), 0) != sizeof(key_)) {
    return false;
  }
  const std::string name = name_of_file(getpid(), key_);
  Descriptor file = open_file(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL);
  struct stat status {};
  // All of it now: a page that a full file system cannot give later would end the process.
  const bool ready = file && flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
                     posix_fallocate(file.get(), 0, kBytes) == 0 &&
                     fstat(file.get(), &status) == 0 && status.st_nlink > 0;
  void* const map =
      ready ? mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) : MAP_FAILED;
  if (map == MAP_FAILED) {
    unlinkat(folder, name.c_str(), 0);
    return false;
  }
  path_ = path + '/' + name;
  slots_ = static_cast<Slot*>(map);
  file.release();  // the lock is the descriptor's: it stays open as long as the process lives
  return true;
}

Ticket SharedBlocks::publish(const SharedBlock& block) noexcept try {
  if (slots_ == nullptr && !start()) {
    log::warn("memory cannot be shared with other processes: no file in {} or {} ({})",
              folder_in(kPlaces[0]), folder_in(kPlaces[1]), std::strerror(errno));
    return {};
  }
  if (free_.empty() && used_ == kSlots) {
    log::warn("{} blocks are shared with other processes, and no more can be", kSlots);
    return {};
  }
  free_.reserve(used_ + 1);  // withdraw() must not fail
  std::uint32_t index = used_;
  if (free_.empty()) {
    ++used_;
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.block = block;
  std::atomic_ref(slot.number).store(++last_number_, std::memory_order_release);
  return {getpid(), index, key_, last_number_};
} catch (const std::bad_alloc&) {
  return {};
}

void SharedBlocks::withdraw(const Ticket& ticket) noexcept {
  std::atomic_ref(slots_[ticket.slot].number).store(0, std::memory_order_release);
  free_.push_back(ticket.slot);
}

void SharedBlocks::leave() noexcept {
  if (slots_ != nullptr) {
    unlink(path_.c_str());
  }
}

// What the parent shares stays the parent's.
void SharedBlocks::after_fork_in_child() {
  new (this) SharedBlocks;
}

std::optional<SharedBlock> find_shared(const Ticket& ticket) {
  using Slot = SharedBlocks::Slot;
  const std::string name = name_of_file(ticket.owner, ticket.key);
  for (const char* place : kPlaces) {
    const Descriptor folder = open_folder(folder_in(place));
    const Descriptor file =
        folder ? open_file(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK) : Descriptor(-1);
    if (!file || !is_ours_alone(file.get(), S_IFREG) || ticket.slot >= SharedBlocks::kSlots) {
      continue;
    }
    Slot slot{};
    const auto at = static_cast<off_t>(ticket.slot * sizeof(Slot));
    if (pread(file.get(), &slot, sizeof(slot), at) == sizeof(slot) &&
        slot.number == ticket.number && ticket.number != 0) {
      return slot.block;
    }
  }
  return std::nullopt;
}

}  // namespace cubfc
