// Files by which the processes of a user find each other: /dev/shm/cubfc-UID/NAME, else in /tmp.
// Folder and file are the user's alone. Whoever has a file mapped keeps it locked, so a file that
// nobody has locked is left over from the dead, and is removed. The lock is the mapping's: no
// descriptor stays open, since programs close descriptors that they did not open, and a forked
// child inherits neither. Knows nothing of what is in them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cubfc {

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : value_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

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
// file for another.
std::optional<SharedFile> make_shared_file(std::string_view kind, std::size_t bytes,
                                           std::uint64_t& key);
// Of another process, to be read. An empty Descriptor when there is none, or somebody else may
// write there.
Descriptor open_shared_file(const std::string& name);
std::string name_of_shared_file(std::string_view kind, pid_t owner, std::uint64_t key);

// A file of this name that several processes have, and that is there as long as one of them does:
// the first makes it, if it is kMake. Only its first page has room on the file system. Nothing when
// there is none, or none can be made; errno says why. Throws std::bad_alloc. What `file` locks
// beside (fcntl's F_OFD_SETLK) stays locked as long as the mapping, also when `file` is closed.
struct JoinedFile {
  SharedFile shared;
  Descriptor file;
};
enum class IfMissing : bool { kNothing, kMake };
std::optional<JoinedFile> join_shared_file(const std::string& name, std::size_t bytes,
                                           IfMissing if_missing);
// The file system has room for these bytes from now on: a page that it cannot give later would end
// the process. False: errno says why.
bool make_room_in(int file, std::size_t start, std::size_t bytes) noexcept;
// The same file once more, for locks that end with the Descriptor. Empty if it is no longer there.
Descriptor open_again(const SharedFile& file);
// Unmaps it, and removes it if nobody else has it.
void leave_shared_file(const SharedFile& file) noexcept;

// For a message: where files are looked for.
std::string shared_folders();

}  // namespace cubfc
