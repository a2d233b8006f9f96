#include "shim/share/neighbours.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "shim/meet/shared_files.h"

namespace cubfc {

bool are_of(const figures::DeviceFigures& device, const std::array<char, 16>& uuid) noexcept {
  return device.ready.load() == 1 && std::memcmp(device.uuid.data(), uuid.data(), uuid.size()) == 0;
}

void for_each_neighbour(const std::array<char, 16>& uuid, const figures::ProcessFigures* own,
                        const std::function<void(const figures::ProcessFigures& process,
                                                 const figures::DeviceFigures& device)>& look) {
  const auto process = std::make_unique<figures::ProcessFigures>();
  for_each_shared_file(figures::kFileKind, [&](const std::string& /*path*/, int file) {
    constexpr auto kBytes = static_cast<ssize_t>(sizeof(figures::ProcessFigures));
    if (pread(file, process.get(), sizeof(figures::ProcessFigures), 0) != kBytes ||
        process->magic.load() != figures::kMagic ||
        // The process id is not enough: in another container a process may have the same.
        (own != nullptr && process->pid == own->pid &&
         process->start_unix_ns == own->start_unix_ns)) {
      return;
    }
    for (const figures::DeviceFigures& device : process->devices) {
      if (are_of(device, uuid)) {
        look(*process, device);
      }
    }
  });
}

std::vector<OutOfMemory::Neighbour> neighbours_on(const std::array<char, 16>& uuid,
                                                  const figures::ProcessFigures& own) {
  std::vector<OutOfMemory::Neighbour> found;
  for_each_neighbour(uuid, &own, [&](const auto& process, const auto& device) {
    found.push_back(
        {process.pid, std::string(process.program.get()), figures::read(device.bytes_taken)});
  });
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.bytes_taken > b.bytes_taken; });
  return found;
}

}  // namespace cubfc
