// Functions of loaded modules and libraries.
#pragma once

#include <string>

#include "kernels.h"
#include "state.h"

namespace standin {

struct Function {
  std::string name;
  const Kernel* kernel;  // null: nothing but a delay
};

// A CUfunction or a CUkernel, which are the same here. Wants state().mutex held.
CUresult FindFunction(const void* handle, const Function*& out);

}  // namespace standin
