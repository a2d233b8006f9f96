// cuLink*: what is added is kept as it is, and the image is all of it in a row. Nothing is
// compiled.
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "behaviour.h"
#include "entry_point.h"
#include "state.h"

namespace standin {
namespace {

struct Link {
  std::string image;
  bool complete = false;
  CUjit_option* options;  // the caller's, until the link is destroyed
  void** values;
  unsigned count;
};

// Guarded by state().mutex.
Registry<CUlinkState, Link>& links() {
  static auto* const instance = new Registry<CUlinkState, Link>;
  return *instance;
}

CUresult Find(CUlinkState handle, Link*& out) {
  const auto found = links().find(handle);
  if (found == links().end()) return CUDA_ERROR_INVALID_HANDLE;
  out = found->second.get();
  return CUDA_SUCCESS;
}

CUresult Create(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  const Lock lock(state().mutex);
  Context* context = nullptr;
  if (const CUresult error = CurrentContext(context)) return error;
  if (!out || (count > 0 && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
  *out = AddTo(links(), std::make_shared<Link>(Link{
                            .image = {}, .options = options, .values = values, .count = count}));
  return CUDA_SUCCESS;
}

CUresult Add(CUlinkState handle, CUjitInputType type, const void* data, std::size_t bytes) {
  const Lock lock(state().mutex);
  Link* link = nullptr;
  if (const CUresult error = Find(handle, link)) return error;
  const bool known = type >= CU_JIT_INPUT_CUBIN && type < CU_JIT_NUM_INPUT_TYPES;
  if (!data || bytes == 0 || !known || link->complete) return CUDA_ERROR_INVALID_VALUE;
  link->image.append(static_cast<const char*>(data), bytes);
  return CUDA_SUCCESS;
}

CUresult AddFile(CUlinkState handle, CUjitInputType type, const char* path) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return Add(handle, type, bytes.data(), bytes.size());
}

// cuda.h: the sizes of the logs become what was written there, which is nothing.
CUresult Complete(CUlinkState handle, void** image, std::size_t* bytes) {
  const Lock lock(state().mutex);
  Link* link = nullptr;
  if (const CUresult error = Find(handle, link)) return error;
  if (!image || link->image.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < link->count; ++i) {
    const CUjit_option option = link->options[i];
    if (option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
        option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      link->values[i] = nullptr;
    }
  }
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
  (void)name, (void)count, (void)options, (void)values;
  return Add(link, type, data, bytes);
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
