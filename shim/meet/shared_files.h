// Files by which the processes of a user find each other, in a folder of the user's own:
// $XDG_RUNTIME_DIR/cubfc or /run/user/UID/cubfc where there is such a folder, else
// /dev/shm/cubfc-UID, else /tmp/cubfc-UID. Files are made in the first folder that can be used, and
// looked for in all of them. A process that has a file mapped keeps it locked (locked_mapping.h),
// so a file that nobody has locked is left over from dead processes. README.md of this folder says
// who removes such files. Nothing here ends the program: not a limit on the size of files, a full
// file system, or a umask that takes away the user's own rights. Knows nothing of what is in the
// files.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shim/meet/descriptor.h"
#include "shim/meet/shared_folders.h"

namespace cubfc {

struct SharedFile {
  std::string path;
  void* data = nullptr;  // zeros at first
  std::size_t bytes = 0;
  // These two identify the file, even if there is another file at `path` by now.
  dev_t device = 0;
  ino_t inode = 0;
};

// Makes a file that belongs to this process until the process ends. Nothing if no folder can be
// used, or there is no room; errno says why. Throws std::bad_alloc. `kind`: how the name begins.
// `key` is set to a random number, which is part of the name: a later process with the same pid
// finds no file in its way, and nobody takes one file for another. Also removes such files of dead
// processes, except for the newest kMostOutliving of those whose names begin with kOutliving.
inline constexpr std::string_view kOutliving = "figures-";  // files that outlive their process
inline constexpr std::ptrdiff_t kMostOutliving = 16;
std::optional<SharedFile> make_shared_file(std::string_view kind, std::size_t bytes,
                                           std::uint64_t& key);
// Opens a file of another process to read it. An empty Descriptor if there is none, or if other
// users may write to it.
Descriptor open_shared_file(const std::string& name, Where where = Where::kAsSet);
std::string name_of_shared_file(std::string_view kind, pid_t owner, std::uint64_t key);

// The names of all files in this user's folders whose names begin with `beginning`. Throws
// std::bad_alloc.
std::vector<std::string> names_of_shared_files(std::string_view beginning,
                                               Where where = Where::kAsSet);

// Calls `look` with each file of that kind whose process lives; with kIsDead, with each one whose
// process is dead. Looks at this user's files; for root, at those of all users. A file may be
// written to meanwhile, and may be shorter than it should be. Throws std::bad_alloc.
enum class Owner : bool { kLives, kIsDead };
void for_each_shared_file(std::string_view kind,
                          const std::function<void(const std::string& path, int file)>& look,
                          Owner owner = Owner::kLives);

// Joins a file that several processes have, and that is there as long as one of them has it. With
// kMake the first process makes it. Only its first page has room on the file system; see
// make_room_in(). `then`: see map_locked(). Nothing if there is no such file, or none can be made;
// errno says why. Throws std::bad_alloc. `unusable`: a file of that name that is there and cannot
// be joined ends the search, and its path is stored here. With nullptr another file is looked for,
// or made, in the other folders.
enum class IfMissing : bool { kNothing, kMake };
std::optional<SharedFile> join_shared_file(
    const std::string& name, std::size_t bytes, IfMissing if_missing,
    const std::function<bool(int file, void* data)>& then = {}, std::string* unusable = nullptr,
    Where where = Where::kAsSet);
// Reserves room on the file system for these bytes of the file: a page for which there is no room
// later would end the process. False: errno says why.
bool make_room_in(int file, std::size_t start, std::size_t bytes) noexcept;
// Removes files of the kind that several processes join: those whose names begin with `names`, that
// no process has mapped any more, and for which `may_go` returns true. No process can join a file
// while `may_go` looks at it. Throws std::bad_alloc.
void remove_left_files(std::string_view names, const std::function<bool(int file)>& may_go);
// Opens the same file once more, for locks that end with the Descriptor. Empty if the file is no
// longer at its path.
Descriptor open_again(const SharedFile& file);
// Whether a file may have this size: one that grows beyond the process's limit (RLIMIT_FSIZE) would
// end the process by a signal. If not, sets errno.
bool may_grow_to(std::size_t bytes);
// Unmaps the file, and removes it if no other process has it.
void leave_shared_file(const SharedFile& file) noexcept;

}  // namespace cubfc
