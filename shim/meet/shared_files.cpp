#include "shim/meet/shared_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "shim/meet/locked_mapping.h"
#include "shim/tell/format.h"

namespace cubfc {
namespace {

// Another process may remove a file before it is locked here, but hardly often.
constexpr int kMostAttempts = 10;

// The folder's name where the folders of all users are; the user's number follows.
constexpr std::string_view kShared = "cubfc-";

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

// Where the folder may be. A runtime folder is there for one user alone, who cannot be kept from
// it; the other two places are everybody's.
std::vector<std::string> folders(Where where = Where::kAsSet) {
  std::vector<std::string> found;
  const auto add_runtime_folder = [&](const std::string& runtime) {
    const std::string folder = runtime + "/cubfc";
    if (runtime.starts_with('/') && open_folder(runtime) &&
        std::find(found.begin(), found.end(), folder) == found.end()) {
      found.push_back(folder);
    }
  };
  const char* const variable = where == Where::kFixed ? nullptr : secure_getenv("XDG_RUNTIME_DIR");
  add_runtime_folder(variable == nullptr ? "" : variable);
  add_runtime_folder(format("/run/user/{}", geteuid()));
  for (const char* place : {"/dev/shm", "/tmp"}) {
    found.push_back(format("{}/{}{}", place, kShared, geteuid()));
  }
  return found;
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const auto close = [](DIR* listing) { closedir(listing); };
  const std::unique_ptr<DIR, decltype(close)> listing(opendir(path.c_str()), close);
  while (const dirent* const entry = listing == nullptr ? nullptr : readdir(listing.get())) {
    if (entry->d_name[0] != '.') {
      names.emplace_back(entry->d_name);
    }
  }
  return names;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Of every user.
std::vector<std::string> folders_of_all() {
  std::vector<std::string> found = folders();
  const auto add = [&](const std::string& folder) {
    if (std::find(found.begin(), found.end(), folder) == found.end()) {
      found.push_back(folder);
    }
  };
  for (const std::string& user : names_in("/run/user")) {
    add("/run/user/" + user + "/cubfc");
  }
  for (const std::string place : {"/dev/shm", "/tmp"}) {
    for (const std::string& name : names_in(place)) {
      if (name.starts_with(kShared) && is_number(name.substr(kShared.size()))) {
        add(place + '/' + name);
      }
    }
  }
  return found;
}

// Whatever the program's file mode mask is, or was when the folder was made.
Descriptor make_folder(const std::string& path) {
  struct stat status {};
  if (mkdir(path.c_str(), S_IRWXU) == 0 ||
      (lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
       (status.st_mode & S_IRWXU) != S_IRWXU)) {
    chmod(path.c_str(), S_IRWXU);
  }
  return open_folder(path);
}

Descriptor open_file(int folder, const char* name, int flags) {
  return Descriptor(openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

// One that grows beyond the program's own limit would end it (SIGXFSZ).
bool may_grow_to(std::size_t bytes) {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    errno = EFBIG;
    return false;
  }
  return true;
}

// Whether a process has made it for itself: name_of_shared_file().
bool has_owner(std::string_view name) {
  constexpr std::size_t kKeyDigits = 16;
  if (name.size() <= kKeyDigits) {
    return false;
  }
  const std::size_t dash = name.size() - kKeyDigits - 1;
  return name[dash] == '-' &&
         name.find_first_not_of("0123456789abcdef", dash + 1) == std::string_view::npos;
}

bool is_nobodys(const Descriptor& file) {
  return file && is_ours_alone(file.get(), S_IFREG) && flock(file.get(), LOCK_EX | LOCK_NB) == 0;
}

// Removes the files in `folder`, which is at `path`, that are `wanted` by their name, that nobody
// has locked, and that `may_go` lets go. It is locked here until it is gone: who makes or joins it
// meanwhile waits for the lock, and then sees that it has no name any more (map_locked).
void remove_nobodys(const std::string& path, int folder,
                    const std::function<bool(std::string_view)>& wanted,
                    const std::function<bool(int file)>& may_go) {
  for (const std::string& name : names_in(path)) {
    const Descriptor file =
        wanted(name) ? open_file(folder, name.c_str(), O_RDWR | O_NONBLOCK) : Descriptor();
    const LockedForMoment only_ours(file);
    if (is_nobodys(file) && may_go(file.get())) {
      unlinkat(folder, name.c_str(), 0);
    }
  }
}

// Everything of `shared` but its path and its length.
bool map(Descriptor file, Lock lock, const std::function<bool(int, void*)>& then,
         SharedFile& shared) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) {
    return false;
  }
  shared.device = status.st_dev;
  shared.inode = status.st_ino;
  shared.data = map_locked(std::move(file), shared.bytes, lock, then);
  return shared.data != nullptr;
}

bool make_in(const std::string& path, int folder, std::string_view kind, SharedFile& made,
             std::uint64_t& key) {
  if (!may_grow_to(made.bytes) || getrandom(&key, sizeof(key), 0) != sizeof(key)) {
    return false;
  }
  const std::string name = name_of_shared_file(kind, getpid(), key);
  Descriptor file = open_file(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL);
  if (!file) {
    return false;
  }
  made.path = path + '/' + name;
  fchmod(file.get(), S_IRUSR | S_IWUSR);
  // All of it now: a page that a full file system cannot give later would end the process.
  if (make_room_in(file.get(), 0, made.bytes) && map(std::move(file), Lock::kExclusive, {}, made)) {
    return true;
  }
  const int error = errno;
  unlinkat(folder, name.c_str(), 0);
  errno = error;
  return false;
}

// The file as long as it should be, its first page there. errno says what is wrong.
Descriptor open_to_join(int folder, const char* name, std::size_t bytes, IfMissing if_missing) {
  const bool make = if_missing == IfMissing::kMake;
  if (make && !may_grow_to(bytes)) {
    return Descriptor();
  }
  Descriptor file = open_file(folder, name, make ? O_RDWR | O_CREAT : O_RDWR);
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) {
    return Descriptor();
  }
  const bool is_new = status.st_size == 0;
  if (is_new && make && status.st_uid == geteuid()) {
    fchmod(file.get(), S_IRUSR | S_IWUSR);
  }
  const auto size = static_cast<off_t>(bytes);
  if (!is_ours_alone(file.get(), S_IFREG) || (is_new ? !make : status.st_size != size)) {
    errno = is_new ? ENOENT : EINVAL;
    return Descriptor();
  }
  const bool ready = (!is_new || ftruncate(file.get(), size) == 0) &&
                     make_room_in(file.get(), 0, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  return ready ? std::move(file) : Descriptor();
}

// In a folder of this user's own. Leaves errno as it is.
bool is_there(const std::string& path, const std::string& name) {
  const int error = errno;
  struct stat status {};
  const Descriptor folder = open_folder(path);
  const bool found =
      folder && fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  errno = error;
  return found;
}

bool join_in(const std::string& path, const std::string& name, IfMissing if_missing,
             const std::function<bool(int, void*)>& then, SharedFile& joined) {
  const Descriptor folder = if_missing == IfMissing::kMake ? make_folder(path) : open_folder(path);
  joined.path = path + '/' + name;
  for (int attempt = 0; folder && attempt < kMostAttempts; ++attempt) {
    Descriptor file = open_to_join(folder.get(), name.c_str(), joined.bytes, if_missing);
    const bool is_open = static_cast<bool>(file);
    if (is_open && map(std::move(file), Lock::kShared, then, joined)) {
      return true;
    }
    if (!is_open || errno != ESTALE) {
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

std::string name_of_shared_file(std::string_view kind, pid_t owner, std::uint64_t key) {
  return format("{}{}-{:016x}", kind, owner, key);
}

std::optional<SharedFile> make_shared_file(std::string_view kind, std::size_t bytes,
                                           std::uint64_t& key) {
  std::optional<SharedFile> made(std::in_place);
  made->bytes = bytes;
  for (const std::string& path : folders()) {
    const Descriptor folder = make_folder(path);
    if (!folder) {
      continue;
    }
    remove_nobodys(path, folder.get(), has_owner, [](int) { return true; });
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      if (make_in(path, folder.get(), kind, *made, key)) {
        return made;
      }
      if (errno != ESTALE) {
        break;
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> names_of_shared_files(std::string_view beginning, Where where) {
  std::vector<std::string> found;
  for (const std::string& path : folders(where)) {
    if (open_folder(path)) {
      for (std::string& name : names_in(path)) {
        if (name.starts_with(beginning)) {
          found.push_back(std::move(name));
        }
      }
    }
  }
  return found;
}

void for_each_shared_file(std::string_view kind,
                          const std::function<void(const std::string& path, int file)>& look) {
  for (const std::string& path : geteuid() == 0 ? folders_of_all() : folders()) {
    struct stat status {};
    const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder || fstat(folder.get(), &status) != 0 ||
        (status.st_uid != geteuid() && geteuid() != 0)) {
      continue;
    }
    for (const std::string& name : names_in(path)) {
      struct stat its_status {};
      const Descriptor file = name.starts_with(kind)
                                  ? open_file(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK)
                                  : Descriptor();
      if (file && fstat(file.get(), &its_status) == 0 && S_ISREG(its_status.st_mode) &&
          its_status.st_uid == status.st_uid && flock(file.get(), LOCK_SH | LOCK_NB) != 0) {
        look(path + '/' + name, file.get());
      }
    }
  }
}

Descriptor open_shared_file(const std::string& name, Where where) {
  for (const std::string& path : folders(where)) {
    const Descriptor folder = open_folder(path);
    Descriptor file =
        folder ? open_file(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK) : Descriptor();
    if (file && is_ours_alone(file.get(), S_IFREG)) {
      return file;
    }
  }
  return Descriptor();
}

std::optional<SharedFile> join_shared_file(const std::string& name, std::size_t bytes,
                                           IfMissing if_missing,
                                           const std::function<bool(int, void*)>& then,
                                           std::string* unusable, Where where) {
  std::optional<SharedFile> joined(std::in_place);
  joined->bytes = bytes;
  const std::vector<std::string> all = folders(where);
  for (const auto now : {IfMissing::kNothing, IfMissing::kMake}) {
    for (const std::string& path : all) {
      if (now <= if_missing && join_in(path, name, now, then, *joined)) {
        return joined;
      }
      if (unusable != nullptr && is_there(path, name)) {
        // Or it has just been made, and is not yet as long as it will be.
        if (now == IfMissing::kNothing && errno == ENOENT && if_missing == IfMissing::kMake &&
            join_in(path, name, IfMissing::kMake, then, *joined)) {
          return joined;
        }
        *unusable = joined->path;
        return std::nullopt;
      }
    }
  }
  return std::nullopt;
}

void remove_left_files(std::string_view names, const std::function<bool(int file)>& may_go) {
  for (const std::string& path : folders()) {
    if (const Descriptor folder = open_folder(path)) {
      remove_nobodys(
          path, folder.get(), [&](std::string_view name) { return name.starts_with(names); },
          may_go);
    }
  }
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

std::string why_no_shared_file(int error, Where where) {
  std::string text;
  for (const std::string& path : folders(where)) {
    struct stat status {};
    const int not_made = mkdir(path.c_str(), S_IRWXU) == 0 ? 0 : errno;
    text += (text.empty() ? "" : ", ") + path + ' ';
    if (lstat(path.c_str(), &status) != 0) {
      text += std::string("cannot be made (") + std::strerror(not_made) + ')';
    } else if (!S_ISDIR(status.st_mode)) {
      text += "is no folder";
    } else if (status.st_uid != geteuid()) {
      text += format("belongs to user {}", status.st_uid);
    } else if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
      text += "is open to other users (chmod 700 would do)";
    } else {
      text += std::string("takes no file (") + std::strerror(error) + ')';
    }
  }
  return text;
}

}  // namespace cubfc
