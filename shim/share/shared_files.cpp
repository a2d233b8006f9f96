#include "shim/share/shared_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

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

std::optional<SharedFile> make_in(const std::string& path, int folder, std::string_view kind,
                                  std::size_t bytes) {
  SharedFile made{};
  if (getrandom(&made.key, sizeof(made.key), 0) != sizeof(made.key)) {
    return std::nullopt;
  }
  const std::string name = name_of_shared_file(kind, getpid(), made.key);
  made.path = path + '/' + name;
  Descriptor file = open_file(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL);
  struct stat status {};
  // All of it now: a page that a full file system cannot give later would end the process.
  const bool ready = file && flock(file.get(), LOCK_EX | LOCK_NB) == 0 &&
                     posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) == 0 &&
                     fstat(file.get(), &status) == 0 && status.st_nlink > 0;
  made.data =
      ready ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0) : MAP_FAILED;
  if (made.data == MAP_FAILED) {
    unlinkat(folder, name.c_str(), 0);
    return std::nullopt;
  }
  file.release();  // the lock is the descriptor's: it stays open as long as the process lives
  return made;
}

}  // namespace

Descriptor::~Descriptor() {
  if (value_ >= 0) {
    close(value_);
  }
}

std::string name_of_shared_file(std::string_view kind, pid_t owner, std::uint64_t key) {
  return format("{}{}-{:016x}", kind, owner, key);
}

std::optional<SharedFile> make_shared_file(std::string_view kind, std::size_t bytes) {
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
      if (auto made = make_in(path, folder.get(), kind, bytes)) {
        return made;
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

std::string shared_folders() {
  return folder_in(kPlaces[0]) + " or " + folder_in(kPlaces[1]);
}

}  // namespace cubfc
