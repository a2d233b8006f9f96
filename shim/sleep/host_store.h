// Where the bytes of a sleeping program lie: memory of the host, or a file.
#pragma once

#include <cstdint>
#include <string>

namespace cubfc {

// One piece of memory, which a forked child does not inherit. Not thread-safe.
class HostStore {
 public:
  HostStore() = default;
  ~HostStore() { free(); }
  HostStore(const HostStore&) = delete;
  HostStore& operator=(const HostStore&) = delete;

  // Makes room for so many bytes. `folder`: the bytes lie in a file without a name in it; empty:
  // they lie in memory. Returns an empty string, or why there is no room, for a message. The room
  // is there: writing to it does not fail, unless the disk does. Throws std::bad_alloc.
  std::string allocate(std::uint64_t bytes, const std::string& folder);
  // Frees the room.
  void free() noexcept;

  char* data() const noexcept { return data_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  char* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// How much memory the host can give without taking it from other processes: what /proc/meminfo
// calls available (0 if that cannot be read), and what is left of the limit of this process's
// cgroup, whichever is less.
std::uint64_t available_host_bytes();

}  // namespace cubfc
