#include "jit.h"

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "settings.h"

namespace standin {
namespace {

// nvJitLink.h: its handle, its functions by the major version of the toolkit, its kinds of input.
using Handle = struct nvJitLink*;
enum class InputType { kCubin = 1, kPtx = 2, kFatbin = 4, kObject = 5, kLibrary = 6 };

struct Library {
  int (*create)(Handle*, std::uint32_t, const char**) = nullptr;
  int (*add)(Handle, InputType, const void*, std::size_t, const char*) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubin_size)(Handle, std::size_t*) = nullptr;
  int (*cubin)(Handle, void*) = nullptr;
  int (*log_size)(Handle, std::size_t*) = nullptr;
  int (*log)(Handle, char*) = nullptr;
  int (*destroy)(Handle*) = nullptr;
};

template <typename Function>
bool LookUp(Function*& out, void* library, const std::string& name) {
  for (const char* const version : {"_13_0", "_12_0"}) {
    out = reinterpret_cast<Function*>(dlsym(library, ("__nvJitLink" + name + version).c_str()));
    if (out) return true;
  }
  return false;
}

// Ends the process where STANDIN_JIT does not name such a library.
Library Load(const std::string& path) {
  Library library;
  void* const loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded && LookUp(library.create, loaded, "Create") &&
      LookUp(library.add, loaded, "AddData") && LookUp(library.complete, loaded, "Complete") &&
      LookUp(library.cubin_size, loaded, "GetLinkedCubinSize") &&
      LookUp(library.cubin, loaded, "GetLinkedCubin") &&
      LookUp(library.log_size, loaded, "GetErrorLogSize") &&
      LookUp(library.log, loaded, "GetErrorLog") && LookUp(library.destroy, loaded, "Destroy")) {
    return library;
  }
  const char* const why = loaded ? "it has not the functions of libnvJitLink" : dlerror();
  std::fprintf(stderr, "standin: STANDIN_JIT=%s is no libnvJitLink: %s\n", path.c_str(), why);
  std::abort();
}

const Library* library() {
  static const Library* const instance =
      settings().jit.empty() ? nullptr : new Library(Load(settings().jit));
  return instance;
}

InputType TypeOf(CUjitInputType type) {
  switch (type) {
    case CU_JIT_INPUT_CUBIN:
      return InputType::kCubin;
    case CU_JIT_INPUT_PTX:
      return InputType::kPtx;
    case CU_JIT_INPUT_FATBINARY:
      return InputType::kFatbin;
    case CU_JIT_INPUT_LIBRARY:
      return InputType::kLibrary;
    default:
      return InputType::kObject;
  }
}

}  // namespace

JitOptions JitOptions::Of(unsigned count, const CUjit_option* options, void* const* values) {
  JitOptions result;
  for (unsigned i = 0; options && values && i < count; ++i) {
    if (options[i] == CU_JIT_MAX_REGISTERS) {
      result.most_registers = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(values[i]));
    }
  }
  return result;
}

bool CanCompile() {
  return library() != nullptr;
}

Linked Compile(const std::vector<JitInput>& inputs, const JitOptions& options) {
  const Library& jit = *library();
  std::vector<std::string> words{"-arch=sm_90"};  // as the devices say of themselves
  if (options.most_registers != 0) {
    words.push_back("-maxrregcount=" + std::to_string(options.most_registers));
  }
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());

  Linked linked;
  Handle handle = nullptr;
  if (jit.create(&handle, static_cast<std::uint32_t>(arguments.size()), arguments.data()) != 0) {
    linked.result = CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    return linked;
  }
  bool good = true;
  for (const JitInput& input : inputs) {
    good = good && jit.add(handle, TypeOf(input.type), input.bytes.data(), input.bytes.size(),
                           input.name.c_str()) == 0;
  }
  std::size_t bytes = 0;
  good = good && jit.complete(handle) == 0 && jit.cubin_size(handle, &bytes) == 0;
  if (good) {
    linked.cubin.resize(bytes);
    good = jit.cubin(handle, linked.cubin.data()) == 0;
  }
  if (!good) {
    linked.result = CUDA_ERROR_INVALID_PTX;
    if (jit.log_size(handle, &bytes) == 0 && bytes > 0) {
      linked.log.resize(bytes);
      jit.log(handle, linked.log.data());
      linked.log.resize(linked.log.find_last_not_of('\0') + 1);
    }
  }
  jit.destroy(&handle);
  return linked;
}

}  // namespace standin
