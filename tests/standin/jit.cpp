#include "jit.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "settings.h"

namespace standin {
namespace {

// nvJitLink.h: its handle, its functions by the major version of the toolkit, its kinds of input.
using Handle = nvJitLink*;
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

void WriteLog(unsigned count, const CUjit_option* options, void** values, CUjit_option buffer,
              CUjit_option size, const std::string& log) {
  char* to = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == buffer) to = static_cast<char*>(values[i]);
  }
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] != size) continue;
    const auto room = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(values[i]) &
                                               UINT32_MAX);  // an unsigned int in its place
    const std::size_t written = to && room > 0 ? std::min(log.size(), room - 1) : 0;
    if (to && room > 0) {
      std::memcpy(to, log.data(), written);
      to[written] = '\0';
    }
    values[i] = reinterpret_cast<void*>(written);
  }
}

}  // namespace

void WriteJitLogs(unsigned count, const CUjit_option* options, void** values,
                  const std::string& errors) {
  if (!options || !values) return;
  WriteLog(count, options, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, {});
  WriteLog(count, options, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
           errors);
}

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

JitLink::JitLink(const JitOptions& options) {
  std::vector<std::string> words{"-arch=sm_90"};  // as the devices say of themselves
  if (options.most_registers != 0) {
    words.push_back("-maxrregcount=" + std::to_string(options.most_registers));
  }
  std::vector<const char*> arguments;
  for (const std::string& word : words) arguments.push_back(word.c_str());
  library()->create(&handle_, static_cast<std::uint32_t>(arguments.size()), arguments.data());
}

JitLink::~JitLink() {
  if (handle_) library()->destroy(&handle_);
}

CUresult JitLink::Add(CUjitInputType type, std::string_view bytes, const std::string& name) {
  if (!handle_) return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  const int result =
      library()->add(handle_, TypeOf(type), bytes.data(), bytes.size(), name.c_str());
  return result == 0 ? CUDA_SUCCESS : Failure();
}

CUresult JitLink::Complete(std::string& cubin) {
  std::size_t bytes = 0;
  if (!handle_) return CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
  if (library()->complete(handle_) != 0 || library()->cubin_size(handle_, &bytes) != 0) {
    return Failure();
  }
  cubin.resize(bytes);
  return library()->cubin(handle_, cubin.data()) == 0 ? CUDA_SUCCESS : Failure();
}

std::string JitLink::Log() const {
  std::size_t bytes = 0;
  if (!handle_ || library()->log_size(handle_, &bytes) != 0 || bytes == 0) return {};
  std::string log(bytes, '\0');
  library()->log(handle_, log.data());
  log.resize(log.find_last_not_of('\0') + 1);
  return log;
}

CUresult JitLink::Failure() const {
  const bool too_new = Log().find("Unsupported .version") != std::string::npos;
  return too_new ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION : CUDA_ERROR_INVALID_PTX;
}

}  // namespace standin
