#include "shim/meet/shared_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "shim/meet/locked_mapping.h"
#include "shim/tell/format.h"

namespace cubfc {
namespace {

// Another process may remove a file after this one has opened it and before this one locks it. Then
// the file is made or joined again, up to so many times. More removals in a row hardly happen.
constexpr int kMostAttempts = 10;

Descriptor open_file(int folder, const char* name, int flags) {
  return Descriptor(openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
}

// Whether the name is of a file that a process has made for itself (name_of_shared_file()).
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

// Removes the files in `folder`, which is at `path`, that are `wanted` by their name, that no
// process has locked, and for which `may_go` returns true. A file is locked here until it is
// removed: a process that makes or joins it meanwhile waits for the lock, then sees that the file
// has no name any more (map_locked()).
void remove_nobodys(const std::string& path, int folder,
                    const std::function<bool(std::string_view)>& wanted,
                    const std::function<bool(int file)>& may_go) {
  for (const std::string& name : names_in_folder(path)) {
    const Descriptor file =
        wanted(name) ? open_file(folder, name.c_str(), O_RDWR | O_NONBLOCK) : Descriptor();
    const LockedForMoment only_ours(file);
    if (is_nobodys(file) && may_go(file.get())) {
      unlinkat(folder, name.c_str(), 0);
    }
  }
}

// Removes the files in the folder that dead processes have made for themselves. Of those that
// outlive their process the newest stay.
void remove_of_the_dead(const std::string& path, int folder) {
  std::vector<std::pair<time_t, std::string>> left;
  std::string name;  // of the file that is looked at
  const auto has_owner_and_is_noted = [&](std::string_view each) {
    name = each;
    return has_owner(each);
  };
  remove_nobodys(path, folder, has_owner_and_is_noted, [&](int file) {
    struct stat status {};
    if (!name.starts_with(kOutliving) || fstat(file, &status) != 0) {
      return true;
    }
    left.emplace_back(status.st_mtime, name);
    return false;
  });
  if (left.size() > kMostOutliving) {
    std::sort(left.begin(), left.end(), std::greater<>());
    const auto is_old = [&](std::string_view each) {
      return std::any_of(left.begin() + kMostOutliving, left.end(),
                         [&](const auto& one) { return one.second == each; });
    };
    remove_nobodys(path, folder, is_old, [](int) { return true; });
  }
}

// Maps the file, and fills in `shared` except for its path and its length.
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
  // Room for all of it now: a page for which there is no room later would end the process.
  if (make_room_in(file.get(), 0, made.bytes) && map(std::move(file), Lock::kExclusive, {}, made)) {
    return true;
  }
  const int error = errno;
  unlinkat(folder, name.c_str(), 0);
  errno = error;
  return false;
}

// Opens the file, or makes it, with a length of `bytes` and room for its first page. An empty
// Descriptor: errno says what is wrong.
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

// Whether there is a file of this name in the folder, if that is this user's own. Leaves errno as
// it is.
bool is_there(const std::string& path, const std::string& name) {
  const int error = errno;
  struct stat status {};
  const Descriptor folder = open_shared_folder(path);
  const bool found =
      folder && fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  errno = error;
  return found;
}

bool join_in(const std::string& path, const std::string& name, IfMissing if_missing,
             const std::function<bool(int, void*)>& then, SharedFile& joined) {
  const Descriptor folder =
      if_missing == IfMissing::kMake ? make_shared_folder(path) : open_shared_folder(path);
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

bool may_grow_to(std::size_t bytes) {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    errno = EFBIG;
    return false;
  }
  return true;
}

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
  for (const std::string& path : shared_folders()) {
    const Descriptor folder = make_shared_folder(path);
    if (!folder) {
      continue;
    }
    remove_of_the_dead(path, folder.get());
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
  for (const std::string& path : shared_folders(where)) {
    if (open_shared_folder(path)) {
      for (std::string& name : names_in_folder(path)) {
        if (name.starts_with(beginning)) {
          found.push_back(std::move(name));
        }
      }
    }
  }
  return found;
}

void for_each_shared_file(std::string_view kind,
                          const std::function<void(const std::string& path, int file)>& look,
                          Owner owner) {
  for (const std::string& path : geteuid() == 0 ? shared_folders_of_all() : shared_folders()) {
    struct stat status {};
    const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder || fstat(folder.get(), &status) != 0 ||
        (status.st_uid != geteuid() && geteuid() != 0)) {
      continue;
    }
    for (const std::string& name : names_in_folder(path)) {
      struct stat its_status {};
      const Descriptor file = name.starts_with(kind)
                                  ? open_file(folder.get(), name.c_str(), O_RDONLY | O_NONBLOCK)
                                  : Descriptor();
      if (file && fstat(file.get(), &its_status) == 0 && S_ISREG(its_status.st_mode) &&
          its_status.st_uid == status.st_uid &&
          (flock(file.get(), LOCK_SH | LOCK_NB) != 0) == (owner == Owner::kLives)) {
        look(path + '/' + name, file.get());
      }
    }
  }
}

Descriptor open_shared_file(const std::string& name, Where where) {
  for (const std::string& path : shared_folders(where)) {
    const Descriptor folder = open_shared_folder(path);
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
  const std::vector<std::string> all = shared_folders(where);
  for (const auto now : {IfMissing::kNothing, IfMissing::kMake}) {
    for (const std::string& path : all) {
      if (now <= if_missing && join_in(path, name, now, then, *joined)) {
        return joined;
      }
      if (unusable != nullptr && is_there(path, name)) {
        // Another process may just have made the file, which has no length yet.
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
  for (const std::string& path : shared_folders()) {
    if (const Descriptor folder = open_shared_folder(path)) {
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

}  // namespace cubfc
