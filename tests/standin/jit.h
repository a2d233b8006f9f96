// Compiles PTX and links images, as the driver does, with NVIDIA's libnvJitLink if STANDIN_JIT
// names it. Knows no state of the driver. Thread-safe.
#pragma once

#include <cuda.h>

#include <string>
#include <vector>

namespace standin {

// Of the options of a load or a link, those that change or tell something here.
struct JitOptions {
  unsigned most_registers = 0;  // of a thread; 0: as many as the compiler likes

  static JitOptions Of(unsigned count, const CUjit_option* options, void* const* values);
};

struct JitInput {
  CUjitInputType type;
  std::string bytes;
  std::string name;
};

struct Linked {
  CUresult result = CUDA_SUCCESS;
  std::string cubin;
  std::string log;  // of errors
};

// Whether there is a compiler.
bool CanCompile();

Linked Compile(const std::vector<JitInput>& inputs, const JitOptions& options);

}  // namespace standin
