#include "shim/share/shared_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "shim/tell/format.h"

namespace cubfc {
namespace {

// Where folders are looked for and made: in memory before on disk.
constexpr std::array<const char*, 2> kPlaces{"/dev/shm", "/tmp"};

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
  return folder && is_ours_alone(folder.get(), S_IFDIR) ? std::move(folder) : Descriptor();
}

Descriptor open_file(int folder, const char* name, int flags) {
  return Descriptor(openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

// Removes the files that nobody has locked. An owner that has just made its file notices.
void remove_files_of_the_dead(const std::string& path, const Descriptor& folder) {
  DIR* const listing = opendir(path.c_str());
  if (listing == nullptr) {
    return;
  }
  while (const dirent* const entry = readdir(listing)) {
    const Descriptor file = open_file(folder.get(), entry->d_name, O_RDONLY | O_NONBLOCK);
    if (file && is_ours_alone(file.get(), S_IFREG) && flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
      unlinkat(folder.get(), entry->d_name, 0);
    }
  }
  closedir(listing);
}

// For a moment another process may have it locked, to see whether anybody has it.
bool is_locked_soon(const Descriptor& file, int kind) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (flock(file.get(), kind | LOCK_NB) == 0) {
      return true;
    }
    if (errno != EWOULDBLOCK) {
      return false;
    }
    usleep(1000);
  }
  return false;
}

// Mapped first and locked then, because a child that is forked meanwhile inherits the descriptor:
// it is to be closed next. False: errno says why; ESTALE when another process has removed the file.
bool map_and_lock(const Descriptor& file, int kind, SharedFile& shared) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return false;
  }
  shared.device = status.st_dev;
  shared.inode = status.st_ino;
  shared.data = mmap(nullptr, shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (shared.data == MAP_FAILED) {
    return false;
  }
  if (madvise(shared.data, shared.bytes, MADV_DONTFORK) == 0 && is_locked_soon(file, kind) &&
      fstat(file.get(), &status) == 0) {
    if (status.st_nlink > 0) {
      return true;
    }
    errno = ESTALE;
  }
  const int error = errno;
  munmap(shared.data, shared.bytes);
  errno = error;
  return false;
}

std::optional<SharedFile> make_in(const std::string& path, int folder, std::string_view kind,
                                  std::size_t bytes, std::uint64_t& key) {
  if (getrandom(&key, sizeof(key), 0) != sizeof(key)) {
    return std::nullopt;
  }
  const std::string name = name_of_shared_file(kind, getpid(), key);
  SharedFile made;
  made.path = path + '/' + name;
  made.bytes = bytes;
  const Descriptor file = open_file(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL);
  // All of it now: a page that a full file system cannot give later would end the process.
  if (file && make_room_in(file.get(), 0, bytes) && map_and_lock(file, LOCK_EX, made)) {
    return made;
  }
  const int error = errno;
  unlinkat(folder, name.c_str(), 0);
  errno = error;
  return std::nullopt;
}

// The file as long as it should be, its first page there. errno says what is wrong.
Descriptor open_to_join(int folder, const std::string& name, std::size_t bytes,
                        IfMissing if_missing) {
  Descriptor file =
      open_file(folder, name.c_str(), if_missing == IfMissing::kMake ? O_RDWR | O_CREAT : O_RDWR);
  struct stat status {};
  if (!file || !is_ours_alone(file.get(), S_IFREG) || fstat(file.get(), &status) != 0) {
    return Descriptor();
  }
  const auto size = static_cast<off_t>(bytes);
  const bool is_new = status.st_size == 0;
  if (!is_new && status.st_size != size) {
    errno = EINVAL;
    return Descriptor();
  }
  const bool ready = (!is_new || ftruncate(file.get(), size) == 0) &&
                     make_room_in(file.get(), 0, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  return ready ? std::move(file) : Descriptor();
}

bool join_in(const std::string& path, const std::string& name, IfMissing if_missing,
             JoinedFile& joined) {
  if (if_missing == IfMissing::kMake) {
    mkdir(path.c_str(), S_IRWXU);
  }
  const Descriptor folder = open_folder(path);
  // Another process may remove the file before it is locked, but hardly often.
  for (int attempt = 0; folder && attempt < 10; ++attempt) {
    joined.file = open_to_join(folder.get(), name, joined.shared.bytes, if_missing);
    if (joined.file && map_and_lock(joined.file, LOCK_SH, joined.shared)) {
      joined.shared.path = path + '/' + name;
      return true;
    }
    if (!joined.file || errno != ESTALE) {
      break;
    }
  }
  return false;
}

}  // namespace

bool make_room_in(int file, std::size_t start, std::size_t bytes) noexcept {
  errno = posix_fallocate(file, static_cast<off_t>(start), static_cast<off_t>(bytes));
  return errno == 0;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) {
    close(value_);
  }
}

std::string name_of_shared_file(std::string_view kind, pid_t owner, std::uint64_t key) {
  return format("{}{}-{:016x}", kind, owner, key);
}

std::optional<SharedFile> make_shared_file(std::string_view kind, std::size_t bytes,
                                           std::uint64_t& key) {
  for (const char* place : kPlaces) {
    const std::string path = folder_in(place);
    mkdir(path.c_str(), S_IRWXU);
    const Descriptor folder = open_folder(path);
    if (!folder) {
      continue;
    }
    remove_files_of_the_dead(path, folder);
    // Another process may remove the file before it is locked, but hardly often.
    for (int attempt = 0; attempt < 10; ++attempt) {
      if (auto made = make_in(path, folder.get(), kind, bytes, key)) {
        return made;
      }
      if (errno != ESTALE) {
        break;
      }
    }
  }
  return std::nullopt;
}

Descriptor open_shared_file(const std::string& name) {
  for (const char* place : kPlaces) {
    const Descriptor folder = open_folder(folder_in(place));
    Descriptor file =
        folder ? open_file(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK) : Descriptor();
    if (file && is_ours_alone(file.get(), S_IFREG)) {
      return file;
    }
  }
  return Descriptor();
}

std::optional<JoinedFile> join_shared_file(const std::string& name, std::size_t bytes,
                                           IfMissing if_missing) {
  std::optional<JoinedFile> joined(std::in_place);
  joined->shared.bytes = bytes;
  for (const auto now : {IfMissing::kNothing, IfMissing::kMake}) {
    for (const char* place : kPlaces) {
      if (now <= if_missing && join_in(folder_in(place), name, now, *joined)) {
        return joined;
      }
    }
  }
  return std::nullopt;
}

Descriptor open_again(const SharedFile& file) {
  Descriptor again(open(file.path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  return again && fstat(again.get(), &status) == 0 && status.st_dev == file.device &&
                 status.st_ino == file.inode
             ? std::move(again)
             : Descriptor();
}

void leave_shared_file(const SharedFile& file) noexcept {
  munmap(file.data, file.bytes);
  const Descriptor again = open_again(file);
  if (again && flock(again.get(), LOCK_EX | LOCK_NB) == 0) {
    unlink(file.path.c_str());
  }
}

std::string shared_folders() {
  return folder_in(kPlaces[0]) + " or " + folder_in(kPlaces[1]);
}

}  // namespace cubfc
