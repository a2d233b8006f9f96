// What cuGetProcAddress answers, for historic versions and for all that libcudart 13.0 asks.
#include <cuda.h>
#include <dlfcn.h>

#include <string>

#include "catch.h"
#include "standin.h"

namespace {

struct Answer {
  CUresult result;
  void* address;
  CUdriverProcAddressQueryResult status;
};

Answer Ask(const char* name, int version, cuuint64_t flags = 0) {
  Answer answer{};
  answer.result = cuGetProcAddress_v2(name, &answer.address, version, flags, &answer.status);
  return answer;
}

void* Symbol(const std::string& name) {
  return dlsym(RTLD_DEFAULT, name.c_str());
}

}  // namespace

TEST_CASE("a version is answered with the newest form that is not newer") {
  CHECK(Ask("cuMemAlloc", 2000).address == Symbol("cuMemAlloc"));
  CHECK(Ask("cuMemAlloc", 3010).address == Symbol("cuMemAlloc"));
  CHECK(Ask("cuMemAlloc", 3020).address == Symbol("cuMemAlloc_v2"));
  CHECK(Ask("cuCtxCreate", 11030).address == Symbol("cuCtxCreate_v2"));
  CHECK(Ask("cuCtxCreate", 11040).address == Symbol("cuCtxCreate_v3"));
  CHECK(Ask("cuCtxCreate", 13000).address == Symbol("cuCtxCreate_v4"));
  CHECK(Ask("cuCtxGetDevice", 12090).address == Symbol("cuCtxGetDevice"));
  CHECK(Ask("cuCtxGetDevice", 13000).address == Symbol("cuCtxGetDevice_v2"));
  CHECK(Ask("cuIpcOpenMemHandle", 4010).address == Symbol("cuIpcOpenMemHandle"));
  CHECK(Ask("cuIpcOpenMemHandle", 11000).address == Symbol("cuIpcOpenMemHandle_v2"));
  CHECK(Ask("cuGetProcAddress", 11030).address == Symbol("cuGetProcAddress"));
  CHECK(Ask("cuGetProcAddress", 12000).address == Symbol("cuGetProcAddress_v2"));
}

TEST_CASE("the flags choose between the legacy and the per-thread default stream") {
  CHECK(Ask("cuMemcpyHtoD", 7000, 2).address == Symbol("cuMemcpyHtoD_v2_ptds"));
  CHECK(Ask("cuMemcpyHtoD", 7000, 1).address == Symbol("cuMemcpyHtoD_v2"));
  CHECK(Ask("cuMemAllocAsync", 11020, 2).address == Symbol("cuMemAllocAsync_ptsz"));
  CHECK(Ask("cuMemAlloc", 13000, 2).address == Symbol("cuMemAlloc_v2"));  // has no twin
  CHECK(Ask("cuMemAlloc", 13000, 4).result == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an unknown name and a version too old are told apart") {
  const Answer unknown = Ask("cuNoSuchFunction", 13000);
  CHECK(unknown.result == CUDA_SUCCESS);
  CHECK(unknown.address == nullptr);
  CHECK(unknown.status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  const Answer old = Ask("cuMemAllocAsync", 11010);
  CHECK(old.address == nullptr);
  CHECK(old.status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(Ask("", 0).address == nullptr);
}

TEST_CASE("the requests of libcudart are answered by symbols of this library, where it has them") {
  struct Request {
    std::string name;
    int version;
    cuuint64_t flags;
  };
  const Request requests[] = {
#define CUDART_REQUEST(name, version, flags) {name, version, flags},
#include "cudart/requests.inc"
#undef CUDART_REQUEST
  };
  CHECK(std::size(requests) == 440);
  int answered = 0;
  for (const Request& request : requests) {
    const Answer answer = Ask(request.name.c_str(), request.version, request.flags);
    INFO(request.name << " at " << request.version);
    CHECK((answer.address == nullptr) == (answer.status != CU_GET_PROC_ADDRESS_SUCCESS));
    if (!answer.address) continue;
    ++answered;
    Dl_info found{};
    REQUIRE(dladdr(answer.address, &found) != 0);
    const std::string symbol = found.dli_sname;
    CHECK(symbol.rfind(request.name, 0) == 0);
    CHECK(Symbol(symbol) == answer.address);
    // A request for the per-thread form never gets the legacy one where there are both.
    const bool twin = Symbol(symbol + "_ptsz") || Symbol(symbol + "_ptds");
    CHECK_FALSE((request.flags == 2 && twin));
  }
  CHECK(answered > 180);
}

TEST_CASE("private tables do not exist") {
  const CUuuid id{};
  const void* table = &id;
  CHECK(cuGetExportTable(&table, &id) == CUDA_ERROR_INVALID_VALUE);
  CHECK(table == nullptr);
}

TEST_CASE("no function but the early ones works before cuInit") {
  // This program never calls cuInit.
  int count = 0;
  CHECK(cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  int version = 0;
  CHECK(cuDriverGetVersion(&version) == CUDA_SUCCESS);
  CHECK(version == 13000);
}
