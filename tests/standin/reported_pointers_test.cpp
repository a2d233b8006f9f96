// What is reported of real drivers about the attributes of pointers.
#include <cuda.h>

#include "reported_test.h"

using namespace standin_test;

namespace {

CUcontext ContextOf(CUdeviceptr memory) {
  CUcontext context = reinterpret_cast<CUcontext>(1);
  CHECK(cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, memory) == CUDA_SUCCESS);
  return context;
}

// What cuPointerGetAttributes says of a pointer, all at once.
struct Described {
  CUresult result = CUDA_SUCCESS;
  CUcontext context = reinterpret_cast<CUcontext>(1);
  unsigned type = 99;
  int device = 99;
  void* host = nullptr;
  CUdeviceptr on_device = 1;
};

Described DescriptionOf(CUdeviceptr memory) {
  CUpointer_attribute attributes[] = {
      CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_HOST_POINTER,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
  Described found;
  void* values[] = {&found.context, &found.type, &found.device, &found.host, &found.on_device};
  found.result = cuPointerGetAttributes(5, attributes, values, memory);
  return found;
}

}  // namespace

TEST_CASE("reported: one attribute of a pointer that is none is an error") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  unsigned type = 0;
  const auto ask = [&](void* out, CUpointer_attribute attribute) {
    return cuPointerGetAttribute(out, attribute, memory);
  };
  CHECK(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) == CUDA_SUCCESS);
  CHECK(ask(nullptr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) == CUDA_ERROR_INVALID_VALUE);
  CHECK(ask(&type, static_cast<CUpointer_attribute>(31)) == CUDA_ERROR_INVALID_VALUE);
  Must(cuMemFree_v2(memory));
  CHECK(ask(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, kNowhere) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("reported: all attributes of a pointer that is none succeed, and it is the host's own") {
  const Device device;
  const CUdeviceptr memory = device.Allocate(4096);
  Must(cuMemFree_v2(memory));
  for (const CUdeviceptr address : {memory, kNowhere, CUdeviceptr{0}}) {
    const Described found = DescriptionOf(address);
    CHECK(found.result == CUDA_SUCCESS);
    CHECK(found.context == nullptr);
    CHECK(found.type == 0);
    CHECK(found.device == -2);
    CHECK(found.on_device == 0);
    CHECK(AddressOf(found.host) == address);
  }
}

TEST_CASE(
    "reported: memory of a pool and mapped memory have no context, memory of cuMemAlloc has") {
  const Device device;
  const MappedMemory mapped;
  Must(mapped.Give(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CHECK(ContextOf(device.Allocate(512)) == device.context());
  CHECK(ContextOf(AllocateOfPool(512)) == nullptr);
  CHECK(ContextOf(mapped.address()) == nullptr);
}

TEST_CASE("reported: managed memory tells who may access it") {
  const Device device;
  unsigned flags = 0;
  CHECK(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, AllocateManaged(512)) ==
        CUDA_SUCCESS);
  CHECK(flags == 3);  // CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
}
