// Functions of loaded modules and libraries.
#pragma once

#include <optional>
#include <string>

#include "images.h"
#include "kernels.h"
#include "state.h"

namespace standin {

struct Function {
  std::string name;
  const void* module;         // that it is of
  const Kernel* kernel;       // null: nothing but a delay
  bool is_read;               // its image could be
  Architecture architecture;  // of its module
  KernelNeeds needs;          // guessed where it could not
  // What was set, by device and attribute.
  std::map<std::pair<int, CUfunction_attribute>, int> set = {};
  char as_kernel = 0;  // its address is the CUkernel; that of the whole is the CUfunction
};

// A loaded image. A CUmodule and a CUlibrary are the same here, but that a library is of no
// context.
struct Module {
  std::optional<Image> image;  // nothing: it could not be read
  Architecture architecture;   // that its code is for; 0: the device's
  Id context_id = 0;           // that it was loaded in; 0 for a library
  int device = -1;             // of that context
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;
  // Where its variables are: in each context that has them, by its id.
  struct Place {
    CUdeviceptr address;
    Id buffer_id;
  };
  std::map<std::pair<Id, std::string>, Place> places;
};

// Null where there is none. Wants state().mutex held.
Module* FindModule(const void* handle);

// Where the module's variable is in the context, whose memory it takes at the first call.
// CUDA_ERROR_NOT_FOUND where the module has none of this name. Wants state().mutex held.
CUresult PlaceVariable(Module& module, Context& context, const std::string& name,
                       CUdeviceptr& address, std::size_t& bytes);
CUresult PlaceAllVariables(Module& module, Context& context);
void ReleaseVariables(const Module& module);

// By a CUfunction or a CUkernel, which most calls take alike. Wants state().mutex held.
CUresult FindFunction(const void* handle, const Function*& out);
CUresult FindFunction(const void* handle, Function*& out);

// The most shared memory that a launch of the function may ask for beside what it has of its own
// (functions.cpp), on the device that it runs on from here. Wants state().mutex held.
std::size_t MostDynamicShared(const Function& function);

}  // namespace standin
