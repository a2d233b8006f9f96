// The kernels that the software driver can run: functions of the host that stand for the kernels of
// our own test programs. Any other kernel is only a delay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace standin {

struct Launch {
  unsigned grid[3];
  unsigned block[3];
  std::vector<std::vector<std::byte>> arguments;  // the bytes of each, as the kernel declares them

  std::uint64_t threads() const;
  template <typename T>
  T argument(std::size_t index) const {
    return *reinterpret_cast<const T*>(arguments[index].data());
  }
};

struct Kernel {
  std::string_view name;  // not mangled: extern "C" __global__
  std::vector<std::size_t> argument_bytes;
  std::size_t pointers;  // how many arguments, from the first on, are addresses
  void (*run)(const Launch& launch);
};

// The kernel of this name, or null. A program may have another one of that name.
const Kernel* FindKernel(std::string_view name);

}  // namespace standin
