// cuLink*. With a compiler (jit.h) what is added is linked; without one, the image is all of it in
// a row.
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>

#include "entry_point.h"
#include "jit.h"
#include "state.h"

namespace standin {
namespace {

struct Link {
  std::unique_ptr<JitLink> jit;  // null where there is no compiler
  std::string image;             // without one, what was added so far
  bool any = false;              // was added
  bool complete = false;
  CUjit_option* options = nullptr;  // the caller's, until the link is destroyed
  void** values = nullptr;
  unsigned count = 0;
};

// Guarded by state().mutex.
Registry<CUlinkState, Link>& links() {
  static auto* const instance = new Registry<CUlinkState, Link>;
  return *instance;
}

CUresult Find(CUlinkState handle, std::shared_ptr<Link>& out) {
  const auto found = links().find(handle);
  if (found == links().end()) return CUDA_ERROR_INVALID_HANDLE;
  out = found->second;
  return CUDA_SUCCESS;
}

CUresult Create(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  if (!out || (count > 0 && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
  const auto link = std::make_shared<Link>();
  link->options = options;
  link->values = values;
  link->count = count;
  if (CanCompile()) link->jit = std::make_unique<JitLink>(JitOptions::Of(count, options, values));
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  *out = AddTo(links(), link);
  return CUDA_SUCCESS;
}

void WriteLogs(const Link& link) {
  WriteJitLogs(link.count, link.options, link.values, link.jit ? link.jit->Log() : std::string());
}

// Compiles without the lock, which takes long. A link is for one thread at a time.
CUresult Add(CUlinkState handle, CUjitInputType type, const void* data, std::size_t bytes,
             const char* name) {
  std::shared_ptr<Link> link;
  {
    const Lock lock(state().mutex);
    if (const CUresult error = Find(handle, link)) return error;
  }
  const bool known = type >= CU_JIT_INPUT_CUBIN && type < CU_JIT_NUM_INPUT_TYPES;
  if (!data || bytes == 0 || !known || link->complete) return CUDA_ERROR_INVALID_VALUE;
  const std::string_view added(static_cast<const char*>(data), bytes);
  link->any = true;
  if (!link->jit) {
    link->image += added;
    return CUDA_SUCCESS;
  }
  const CUresult result = link->jit->Add(type, added, name ? name : "");
  if (result != CUDA_SUCCESS) WriteLogs(*link);
  return result;
}

CUresult AddFile(CUlinkState handle, CUjitInputType type, const char* path) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return Add(handle, type, bytes.data(), bytes.size(), path);
}

CUresult Complete(CUlinkState handle, void** image, std::size_t* bytes) {
  std::shared_ptr<Link> link;
  {
    const Lock lock(state().mutex);
    if (const CUresult error = Find(handle, link)) return error;
  }
  if (!image || !link->any) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = link->jit ? link->jit->Complete(link->image) : CUDA_SUCCESS;
  WriteLogs(*link);
  if (result != CUDA_SUCCESS) return result;
  link->complete = true;
  *image = link->image.data();
  if (bytes) *bytes = link->image.size();
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace standin

using namespace standin;

ENTRY(cuLinkCreate_v2, (unsigned count, CUjit_option* options, void** values, CUlinkState* out),
      (count, options, values, out)) {
  return Create(count, options, values, out);
}

ENTRY(cuLinkAddData_v2,
      (CUlinkState link, CUjitInputType type, void* data, size_t bytes, const char* name,
       unsigned count, CUjit_option* options, void** values),
      (link, type, data, bytes, name, count, options, values)) {
  (void)count, (void)options, (void)values;
  return Add(link, type, data, bytes, name);
}

ENTRY(cuLinkAddFile_v2,
      (CUlinkState link, CUjitInputType type, const char* path, unsigned count,
       CUjit_option* options, void** values),
      (link, type, path, count, options, values)) {
  (void)count, (void)options, (void)values;
  return AddFile(link, type, path);
}

ENTRY(cuLinkComplete, (CUlinkState link, void** image, size_t* bytes), (link, image, bytes)) {
  return Complete(link, image, bytes);
}

ENTRY(cuLinkDestroy, (CUlinkState link), (link)) {
  const Lock lock(state().mutex);
  return links().erase(link) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
