#include "shim/sleep/host_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "arena/units.h"
#include "config/values.h"
#include "shim/limit/cgroup_memory.h"
#include "shim/meet/descriptor.h"
#include "shim/meet/shared_files.h"
#include "shim/tell/format.h"
#include "shim/tell/text_file.h"

namespace cubfc {
namespace {

using arena::less;

// What stays for others when the bytes of a program come into the host's memory.
constexpr std::uint64_t kLeftToHost = 256ULL << 20;

// The number in the line that begins with `name`, as "MemAvailable:   123 kB".
std::optional<std::uint64_t> number_in(const std::string& text, std::string_view name) {
  std::optional<std::uint64_t> number;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with(name)) {
      line = config::trimmed(line.substr(name.size()));
      number = config::read_count(line.substr(0, line.find(' ')));
    }
  });
  return number;
}

// What is left of the memory limits of the process's cgroup and of those above it. What the kernel
// keeps of files and does not use counts as left.
std::uint64_t left_in_cgroup() {
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  std::string folder = cgroup_folder(text_of_file("/proc/self/cgroup"));
  while (folder.size() >= std::strlen("/sys/fs/cgroup")) {
    const auto limit = number_in(text_of_file(folder + "/memory.max"), "");  // or "max": none
    const auto used = number_in(text_of_file(folder + "/memory.current"), "");
    if (limit && used) {
      const auto files = number_in(text_of_file(folder + "/memory.stat"), "inactive_file ");
      left = std::min(left, less(*limit, less(*used, files.value_or(0))));
    }
    folder.resize(folder.rfind('/'));
  }
  return left;
}

std::string no_room(std::uint64_t bytes, const std::string& where, int error) {
  return format("{} of its memory do not fit into {}: {}", bytes_text(bytes), where,
                std::strerror(error));
}

}  // namespace

std::uint64_t available_host_bytes() {
  const auto kib = number_in(text_of_file("/proc/meminfo"), "MemAvailable:");
  return std::min(kib.value_or(0) * 1024, left_in_cgroup());
}

std::string HostStore::allocate(std::uint64_t bytes, const std::string& folder) {
  free();
  if (bytes == 0) {
    return "";
  }
  Descriptor file;
  if (folder.empty()) {
    const std::uint64_t available = available_host_bytes();
    if (bytes > available || available - bytes < kLeftToHost) {
      return format(
          "{} of its memory do not fit into the host's, of which {} are available; "
          "CUBFC_SLEEP_HOST=FOLDER keeps them in a file",
          bytes_text(bytes), bytes_text(available));
    }
  } else {
    if (!may_grow_to(bytes)) {
      return no_room(bytes, "a file, of which RLIMIT_FSIZE allows less", errno);
    }
    file = Descriptor(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    const int error = file ? posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)) : errno;
    if (error != 0) {
      return no_room(bytes, "a file in " + folder, error);
    }
  }
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
           file ? file.get() : -1, 0);
  if (data == MAP_FAILED) {
    return no_room(bytes, "the address space", errno);
  }
  madvise(data, bytes, MADV_DONTFORK);
  madvise(data, bytes, MADV_HUGEPAGE);
  madvise(data, bytes, MADV_DONTDUMP);
  data_ = static_cast<char*>(data);
  bytes_ = bytes;
  return "";
}

void HostStore::free() noexcept {
  if (data_ != nullptr) {
    munmap(data_, bytes_);
  }
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace cubfc
