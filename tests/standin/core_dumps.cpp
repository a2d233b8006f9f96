// cuCoredump*: the settings of core dumps of the device, for the process and for each context.
// Nothing is ever dumped.
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <string>

#include "entry_point.h"
#include "state.h"

#if CUDA_VERSION >= 12010

namespace standin {
namespace {

constexpr std::size_t kLongestText = 1024;  // with its NUL

bool IsText(CUcoredumpSettings what) {
  return what == CU_COREDUMP_FILE || what == CU_COREDUMP_PIPE;
}

bool IsKnown(CUcoredumpSettings what) {
  return what >= CU_COREDUMP_ENABLE_ON_EXCEPTION && what < CU_COREDUMP_MAX;
}

// Text, or the bytes of a bool or an unsigned int.
using Values = std::map<CUcoredumpSettings, std::string>;

std::size_t BytesOf(CUcoredumpSettings what) {
  if (IsText(what)) return kLongestText;
  return what <= CU_COREDUMP_ENABLE_USER_TRIGGER ? sizeof(bool) : sizeof(unsigned);
}

std::string NamedAfterProcess(const char* what) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return std::string(what) + ".cuda." + host.data() + "." + std::to_string(getpid());
}

// Guarded by state().mutex, and so is the next.
Values& of_process() {
  static auto* const instance = new Values{{CU_COREDUMP_TRIGGER_HOST, std::string(1, '\1')},
                                           {CU_COREDUMP_FILE, NamedAfterProcess("core")},
                                           {CU_COREDUMP_PIPE, NamedAfterProcess("corepipe")}};
  return *instance;
}

// What was set for a context, by its id.
std::map<Id, Values>& of_contexts() {
  static auto* const instance = new std::map<Id, Values>;
  return *instance;
}

CUresult Write(const Values& values, CUcoredumpSettings what, void* out, std::size_t* bytes) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!out) return *bytes = BytesOf(what), CUDA_SUCCESS;
  const auto found = values.find(what);
  std::string value = found == values.end() ? "" : found->second;
  value.resize(IsText(what) ? value.size() + 1 : BytesOf(what));
  if (*bytes < value.size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, value.data(), value.size());
  return CUDA_SUCCESS;
}

CUresult Read(CUcoredumpSettings what, const void* in, std::size_t* bytes, std::string& value) {
  if (!IsKnown(what) || !in || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (IsText(what)) {
    value.assign(static_cast<const char*>(in), strnlen(static_cast<const char*>(in), *bytes));
    return value.size() < kLongestText ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  if (*bytes < BytesOf(what)) return CUDA_ERROR_INVALID_VALUE;
  value.assign(static_cast<const char*>(in), BytesOf(what));
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuCoredumpGetAttribute, (CUcoredumpSettings what, void* out, size_t* bytes),
      (what, out, bytes)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!IsKnown(what)) return CUDA_ERROR_INVALID_VALUE;
  const auto own = of_contexts().find(context->id);
  const bool set = own != of_contexts().end() && own->second.contains(what);
  return Write(set ? own->second : of_process(), what, out, bytes);
}

ENTRY(cuCoredumpGetAttributeGlobal, (CUcoredumpSettings what, void* out, size_t* bytes),
      (what, out, bytes)) {
  const Lock lock(state().mutex);
  if (!IsKnown(what)) return CUDA_ERROR_INVALID_VALUE;
  return Write(of_process(), what, out, bytes);
}

ENTRY(cuCoredumpSetAttribute, (CUcoredumpSettings what, void* in, size_t* bytes),
      (what, in, bytes)) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  std::string value;
  if (const CUresult error = Read(what, in, bytes, value)) return error;
  // cuda.h: these two cannot be set for a context.
  if (what == CU_COREDUMP_ENABLE_USER_TRIGGER || what == CU_COREDUMP_PIPE) {
    return CUDA_ERROR_NOT_PERMITTED;
  }
  of_contexts()[context->id][what] = value;
  return CUDA_SUCCESS;
}

ENTRY(cuCoredumpSetAttributeGlobal, (CUcoredumpSettings what, void* in, size_t* bytes),
      (what, in, bytes)) {
  const Lock lock(state().mutex);
  std::string value;
  if (const CUresult error = Read(what, in, bytes, value)) return error;
  of_process()[what] = value;
  return CUDA_SUCCESS;
}

#endif
