// Files by which the processes of a user find each other, in a folder of the user's own:
// $XDG_RUNTIME_DIR/cubfc or /run/user/UID/cubfc where there is such a folder, else
// /dev/shm/cubfc-UID, else /tmp/cubfc-UID. They are made in the first that there is, and looked for
// in all of them. Whoever has a file mapped keeps it locked
// (locked_mapping.h), so a file that nobody has locked is left over from the dead.
// Nothing here ends a program: not a limit on the size of files, a full file system, or a mask that
// takes away the user's own rights. Knows nothing of what is in the files.
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
  dev_t device = 0;  // which file it is, whatever lies at the path by now
  ino_t inode = 0;
};

// Makes a file of this process's, which has it until it ends. Nothing when there is no folder to
// share in, or no room; errno says why. Throws std::bad_alloc. `key` becomes a random number, which
// is part of the name: a process id that comes back finds no file in its way, and nobody takes one
// file for another. Removes the files that dead processes have made so, but for the newest of those
// that outlive them.
inline constexpr std::string_view kOutliving = "figures-";  // how their names begin
inline constexpr std::ptrdiff_t kMostOutliving = 16;
std::optional<SharedFile> make_shared_file(std::string_view kind, std::size_t bytes,
                                           std::uint64_t& key);
// Of another process, to be read. An empty Descriptor when there is none, or somebody else may
// write there.
Descriptor open_shared_file(const std::string& name, Where where = Where::kAsSet);
std::string name_of_shared_file(std::string_view kind, pid_t owner, std::uint64_t key);

// The names that begin so, of all files in the folders of this user. Throws std::bad_alloc.
std::vector<std::string> names_of_shared_files(std::string_view beginning,
                                               Where where = Where::kAsSet);

// Calls `look` with each file of that kind whose process lives, or does no more: of this user's,
// and for root of all users'. It may be written to meanwhile, and shorter than it should be. Throws
// std::bad_alloc.
enum class Owner : bool { kLives, kIsDead };
void for_each_shared_file(std::string_view kind,
                          const std::function<void(const std::string& path, int file)>& look,
                          Owner owner = Owner::kLives);

// A file of this name that several processes have, and that is there as long as one of them does:
// the first makes it, if it is kMake. Only its first page has room on the file system. `then`: see
// map_locked(). Nothing when there is none, or none can be made; errno says why. Throws
// std::bad_alloc. `unusable`: a file of that name that is there and cannot be joined ends the
// search, and this becomes its path; else another is looked for, or made, elsewhere.
enum class IfMissing : bool { kNothing, kMake };
std::optional<SharedFile> join_shared_file(
    const std::string& name, std::size_t bytes, IfMissing if_missing,
    const std::function<bool(int file, void* data)>& then = {}, std::string* unusable = nullptr,
    Where where = Where::kAsSet);
// The file system has room for these bytes from now on: a page that it cannot give later would end
// the process. False: errno says why.
bool make_room_in(int file, std::size_t start, std::size_t bytes) noexcept;
// Of the files that several had, whose names begin so: those that nobody has any more and `may_go`
// wants removed. It sees each; nobody can join it meanwhile. Throws std::bad_alloc.
void remove_left_files(std::string_view names, const std::function<bool(int file)>& may_go);
// The same file once more, for locks that end with the Descriptor. Empty if it is no longer there.
Descriptor open_again(const SharedFile& file);
// Unmaps it, and removes it if nobody else has it.
void leave_shared_file(const SharedFile& file) noexcept;

}  // namespace cubfc
