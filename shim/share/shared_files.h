// Files by which the processes of a user find each other: /dev/shm/cubfc-UID/NAME, else in /tmp.
// Folder and file are the user's alone. The owner keeps its file locked as long as it lives, so a
// file that nobody has locked is a dead process's, and the next owner removes it. Knows nothing of
// what is in them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cubfc {

class Descriptor {
 public:
  explicit Descriptor(int value = -1) : value_(value) {}
  ~Descriptor();
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

// Mapped for as long as the process lives: a program may close descriptors that it did not open.
struct SharedFile {
  std::string path;
  std::uint64_t key;  // random, and part of the name: a process id that comes back finds no file in
                      // its way, and nobody takes one file for another
  void* data;         // zeros at first
};

// Makes a file of this process's. Nothing when there is no folder to share in, or no room; errno
// says why. Throws std::bad_alloc.
std::optional<SharedFile> make_shared_file(std::string_view kind, std::size_t bytes);

// Of another process, to be read. An empty Descriptor when there is none, or somebody else may
// write there.
Descriptor open_shared_file(const std::string& name);
std::string name_of_shared_file(std::string_view kind, pid_t owner, std::uint64_t key);

// For a message: where files are looked for.
std::string shared_folders();

}  // namespace cubfc
