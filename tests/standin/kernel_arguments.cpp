#include "kernel_arguments.h"

#include <cxxabi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace standin {
namespace {

constexpr std::size_t kMostBytes = 4096;  // of all arguments of a kernel, before CUDA 12.1

constexpr std::array<std::string_view, 14> kScalars{
    "bool",  "char",         "signed char", "unsigned char", "short",     "unsigned short",
    "int",   "unsigned int", "long",        "unsigned long", "long long", "unsigned long long",
    "float", "double"};

// The most bytes that a parameter of this type takes: whose size is not known, all.
std::size_t MostBytesOf(std::string_view type) {
  const bool is_word = type.ends_with('*') || std::ranges::find(kScalars, type) != kScalars.end();
  return is_word ? sizeof(CUdeviceptr) : kMostBytes;
}

// The most bytes of each parameter of a function, by its mangled name; none where that tells
// nothing.
std::vector<std::size_t> ParametersByName(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), std::free);
  const std::string_view name = text ? text.get() : "";
  std::vector<std::size_t> found;
  if (!name.ends_with(')') || name.ends_with("()")) return found;
  // From the end: before the parameters there may be other brackets.
  std::size_t end = name.size() - 1;
  int depth = 1;
  for (std::size_t at = end; at-- > 0 && depth > 0;) {
    const char letter = name[at];
    if (letter == ')' || letter == '>' || letter == '}' || letter == ']') ++depth;
    if (letter == '(' || letter == '<' || letter == '{' || letter == '[') --depth;
    if (depth == 0 || (depth == 1 && letter == ',')) {
      const std::size_t start = name.find_first_not_of(' ', at + 1);
      found.push_back(MostBytesOf(name.substr(start, end - start)));
      end = at;
    }
  }
  std::ranges::reverse(found);
  return found;
}

// Of this process's memory what is there, which may be less than asked for.
std::vector<std::byte> ReadAtMost(std::uintptr_t start, std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::byte> found(bytes);
  const iovec to{found.data(), bytes};
  const std::size_t first = std::min(bytes, page - start % page);
  const iovec from[]{{reinterpret_cast<void*>(start), first},
                     {reinterpret_cast<void*>(start + first), bytes - first}};
  const ssize_t read = process_vm_readv(getpid(), &to, 1, from, 2, 0);
  found.resize(read < 0 ? 0 : static_cast<std::size_t>(read));
  return found;
}

// The buffer that holds the arguments, if that is how they are given.
struct Packed {
  const std::byte* start = nullptr;
  std::size_t bytes = 0;
};

Packed PackedOf(Arguments arguments) {
  Packed out;
  for (void** at = arguments.packed; at && *at != CU_LAUNCH_PARAM_END; at += 2) {
    if (*at == CU_LAUNCH_PARAM_BUFFER_POINTER) out.start = static_cast<const std::byte*>(at[1]);
    if (*at == CU_LAUNCH_PARAM_BUFFER_SIZE) out.bytes = *static_cast<const std::size_t*>(at[1]);
  }
  return out;
}

void AddAddresses(const std::vector<std::byte>& bytes, std::vector<CUdeviceptr>& addresses) {
  for (std::size_t at = 0; at + sizeof(CUdeviceptr) <= bytes.size(); at += sizeof(CUdeviceptr)) {
    CUdeviceptr word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    if (word != 0 && FindAllocation(word)) addresses.push_back(word);
  }
}

}  // namespace

std::vector<std::vector<std::byte>> ArgumentsOf(const Function& function, Arguments arguments) {
  std::vector<std::vector<std::byte>> out;
  const Packed packed = PackedOf(arguments);
  for (const auto& [number, parameter] : function.needs.parameters) {
    const auto* at = arguments.each ? static_cast<const std::byte*>(arguments.each[number])
                                    : packed.start + parameter.offset;
    const bool there =
        arguments.each ? at != nullptr : parameter.offset + parameter.bytes <= packed.bytes;
    if (!there) return {};
    out.emplace_back(at, at + parameter.bytes);
  }
  return out;
}

std::vector<CUdeviceptr> AddressesIn(const Function& function, Arguments arguments) {
  std::vector<CUdeviceptr> addresses;
  if (arguments.each == nullptr) {
    const auto [start, bytes] = PackedOf(arguments);
    AddAddresses(ReadAtMost(reinterpret_cast<std::uintptr_t>(start), bytes), addresses);
    return addresses;
  }
  if (function.is_read) {
    for (const auto& [number, parameter] : function.needs.parameters) {
      const auto start = reinterpret_cast<std::uintptr_t>(arguments.each[number]);
      AddAddresses(ReadAtMost(start, parameter.bytes), addresses);
    }
    return addresses;
  }
  struct Argument {
    std::uintptr_t start;
    std::size_t most;
  };
  std::vector<Argument> all;
  for (const std::size_t most : ParametersByName(function.name)) {
    all.push_back({reinterpret_cast<std::uintptr_t>(arguments.each[all.size()]), most});
  }
  std::ranges::sort(all, {}, &Argument::start);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t gap = i + 1 < all.size() ? all[i + 1].start - all[i].start : kMostBytes;
    AddAddresses(ReadAtMost(all[i].start, std::min(gap, all[i].most)), addresses);
  }
  return addresses;
}

}  // namespace standin
