// What the image of a module says of its kernels and its variables. Cubins (ELF files of NVIDIA's
// compilers) are read as they are, PTX where there is a compiler for it (jit.h). Knows no state of
// the driver.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "jit.h"

namespace standin {

// What one thread or block of a kernel takes: attributes of functions, in bytes but for registers.
struct KernelNeeds {
  std::size_t registers = 0;
  std::size_t shared_bytes = 0;  // without what the system keeps of it
  std::size_t local_bytes = 0;
  std::size_t constant_bytes = 0;
  std::size_t most_threads = 1024;  // of a block: __launch_bounds__, .maxntid
  struct Parameter {
    std::size_t offset;
    std::size_t bytes;
  };
  std::map<unsigned, Parameter> parameters = {};
};

// A variable of __device__, __constant__ or __managed__ memory.
struct Variable {
  bool is_managed = false;
  std::size_t bytes = 0;
  std::string initial;  // its first bytes; the others are 0
};

struct Image {
  std::map<std::string, KernelNeeds, std::less<>> kernels;
  std::map<std::string, Variable, std::less<>> variables;
};

// For which compute capability the code in the image is that a device takes, ten times the major
// number and the minor one; 0 where the image is no fat binary, which has code for several, or has
// none that the device could take.
struct Architecture {
  int ptx = 0;
  int binary = 0;
};
Architecture ArchitectureIn(const void* image, int capability);

// Reads the image at `start`, whose own headers, or for PTX the NUL at its end, tell its length:
// nobody else does. Nothing where it is none that can be read; where a compiler refused it, `error`
// says why.
std::optional<Image> ReadImage(const void* start, const JitOptions& options, CUresult& error,
                               std::string& log);

}  // namespace standin
