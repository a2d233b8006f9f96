// Finds its driver exactly as a program with a statically linked CUDA 13.0 runtime does: one dlopen
// of libcuda.so.1, one dlsym of cuGetProcAddress_v2, then every request that the runtime makes,
// with its names, versions and flags, all before cuInit. Then uses the pointers it got.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace {

struct Request {
  const char* name;
  int version;
  unsigned long long flags;
};

constexpr Request kRequests[] = {
#define CUDART_REQUEST(name, version, flags) {name, version, flags},
#include "../standin/cudart/requests.inc"
#undef CUDART_REQUEST
};

using GetProcAddress = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t,
                                          CUdriverProcAddressQueryResult*);

class Runtime {
 public:
  explicit Runtime(GetProcAddress resolve) {
    for (const Request& request : kRequests) {
      void* function = nullptr;
      CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
      const CUresult result =
          resolve(request.name, &function, request.version, request.flags, &status);
      if (result == CUDA_SUCCESS && function != nullptr) {
        ++found_;
        functions_[{request.name, request.version, request.flags}] = function;
      }
    }
  }

  template <class Function>
  Function* get(const char* name, int version) const {
    const auto found = functions_.find({name, version, 0});
    if (found == functions_.end()) {
      std::printf("%s at %d was not found\n", name, version);
      std::exit(1);
    }
    return reinterpret_cast<Function*>(found->second);
  }

  int found() const { return found_; }

 private:
  std::map<std::tuple<std::string, int, unsigned long long>, void*> functions_;
  int found_ = 0;
};

bool print(const char* what, CUresult result) {
  std::printf("%s: %d\n", what, static_cast<int>(result));
  return result == CUDA_SUCCESS;
}

bool round_trip(const Runtime& runtime) {
  auto* const alloc = runtime.get<decltype(cuMemAlloc)>("cuMemAlloc", 3020);
  auto* const release = runtime.get<decltype(cuMemFree)>("cuMemFree", 3020);
  auto* const to_device = runtime.get<decltype(cuMemcpyHtoD)>("cuMemcpyHtoD", 3020);
  auto* const to_host = runtime.get<decltype(cuMemcpyDtoH)>("cuMemcpyDtoH", 3020);
  auto* const info = runtime.get<decltype(cuMemGetInfo)>("cuMemGetInfo", 3020);
  std::vector<unsigned char> written(1234567);
  for (std::size_t i = 0; i < written.size(); ++i) {
    written[i] = static_cast<unsigned char>(i * 37 >> 2U);
  }
  std::vector<unsigned char> read(written.size());
  CUdeviceptr block = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  bool ok = print("cuMemAlloc", alloc(&block, written.size()));
  ok = print("cuMemcpyHtoD", to_device(block, written.data(), written.size())) && ok;
  ok = print("cuMemcpyDtoH", to_host(read.data(), block, read.size())) && ok;
  ok = print("cuMemGetInfo", info(&free_bytes, &total_bytes)) && ok;
  std::printf("read back: %s, free below total: %s\n", written == read ? "yes" : "no",
              free_bytes < total_bytes ? "yes" : "no");
  ok = print("cuMemFree", release(block)) && ok;
  std::printf("double free refused: %s\n", release(block) != CUDA_SUCCESS ? "yes" : "no");
  return ok && written == read;
}

}  // namespace

int main() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "no CUDA driver: %s\n", dlerror());
    return 77;
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    std::printf("cuGetProcAddress_v2 was not found\n");
    return 1;
  }
  const Runtime runtime(get);
  std::printf("found %d of %zu\n", runtime.found(), std::size(kRequests));
  CUdevice device = 0;
  CUcontext context = nullptr;
  const bool ready =
      print("cuInit", runtime.get<decltype(cuInit)>("cuInit", 2000)(0)) &&
      print("cuDeviceGet", runtime.get<decltype(cuDeviceGet)>("cuDeviceGet", 2000)(&device, 0)) &&
      print("cuDevicePrimaryCtxRetain", runtime.get<decltype(cuDevicePrimaryCtxRetain)>(
                                            "cuDevicePrimaryCtxRetain", 7000)(&context, device)) &&
      print("cuCtxSetCurrent",
            runtime.get<decltype(cuCtxSetCurrent)>("cuCtxSetCurrent", 4000)(context));
  return ready && round_trip(runtime) ? 0 : 1;
}
