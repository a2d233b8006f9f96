// What the runtime promises of memory, arrays, textures and pools.
#include <unistd.h>

#include <algorithm>

#include "runtime_test.h"

using namespace cudart_test;

namespace {

// An element of 4 bytes.
const cudaChannelFormatDesc kTwoShorts{16, 16, 0, 0, cudaChannelFormatKindUnsigned};
const cudaChannelFormatDesc kByte{8, 0, 0, 0, cudaChannelFormatKindUnsigned};

cudaArray_t NewArray(std::size_t width, std::size_t height) {
  cudaArray_t array = nullptr;
  Must(cudaMallocArray(&array, &kByte, width, height));
  return array;
}

Bytes ReadArray(cudaArray_t array, std::size_t width, std::size_t height) {
  Bytes out(width * height);
  Must(
      cudaMemcpy2DFromArray(out.data(), width, array, 0, 0, width, height, cudaMemcpyDeviceToHost));
  return out;
}

cudaMemLocation On(int device) {
  return {cudaMemLocationTypeDevice, device};
}

}  // namespace

TEST_CASE("a box of memory is set, and copied from its middle") {
  const Runtime runtime;
  cudaPitchedPtr memory{};
  Must(cudaMalloc3D(&memory, {10, 4, 3}));
  CHECK(memory.pitch >= 10);
  CHECK(memory.xsize == 10);
  CHECK(memory.ysize == 4);
  Must(cudaMemset3D(memory, 7, {10, 4, 3}));
  Must(cudaMemset3DAsync(memory, 9, {5, 2, 3}, nullptr));  // not all of the rows of a slice
  Must(cudaDeviceSynchronize());
  Bytes read(std::size_t{4} * 3 * 2);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = memory;
  copy.srcPos = {3, 1, 1};
  copy.dstPtr = {read.data(), 4, 4, 3};
  copy.extent = {4, 3, 2};
  copy.kind = cudaMemcpyDeviceToHost;
  Must(cudaMemcpy3D(&copy));
  const Bytes slice = {9, 9, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
  CHECK(std::equal(slice.begin(), slice.end(), read.begin()));
  CHECK(std::equal(slice.begin(), slice.end(), read.begin() + 12));
}

TEST_CASE("a copy that says neither where from nor where to is refused, and so is a wrong kind") {
  const Runtime runtime;
  cudaMemcpy3DParms copy{};
  copy.kind = cudaMemcpyDefault;
  copy.extent = {1, 1, 1};
  CHECK(cudaMemcpy3D(&copy) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy3D(nullptr) == cudaErrorInvalidValue);
  copy.kind = static_cast<cudaMemcpyKind>(7);
  CHECK(cudaMemcpy3D(&copy) == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a box goes to an array and back, its width counted in elements") {
  const Runtime runtime;
  cudaArray_t array = nullptr;
  Must(cudaMalloc3DArray(&array, &kTwoShorts, {8, 4, 3}));
  Bytes from = Counted(std::size_t{8} * 4 * 4 * 3);
  Bytes to(from.size());
  cudaMemcpy3DParms copy{};
  copy.srcPtr = {from.data(), 32, 32, 4};
  copy.dstArray = array;
  copy.extent = {8, 4, 3};
  copy.kind = cudaMemcpyHostToDevice;
  Must(cudaMemcpy3DAsync(&copy, nullptr));
  copy = {};
  copy.srcArray = array;
  copy.srcPos = {2, 0, 1};  // two elements from the left, and the second slice
  copy.dstPtr = {to.data(), 24, 24, 4};
  copy.extent = {6, 4, 2};
  copy.kind = cudaMemcpyDeviceToHost;
  Must(cudaMemcpy3D(&copy));
  CHECK(to[0] == from[32 * 4 + 8]);
  CHECK(std::equal(to.begin() + 24, to.begin() + 48, from.begin() + 168));

  cudaChannelFormatDesc description{};
  cudaExtent extent{};
  unsigned flags = 1;
  Must(cudaArrayGetInfo(&description, &extent, &flags, array));
  CHECK(description.x == 16);
  CHECK(description.y == 16);
  CHECK(description.z == 0);
  CHECK(description.f == cudaChannelFormatKindUnsigned);
  CHECK(extent.depth == 3);
  CHECK(flags == 0);
  cudaChannelFormatDesc again{};
  Must(cudaGetChannelDesc(&again, array));
  CHECK(again.y == 16);
  Must(cudaFreeArray(array));
  CHECK(cudaFreeArray(array) != cudaSuccess);
  CHECK(cudaFreeArray(nullptr) == cudaSuccess);
}

TEST_CASE("channels that no array has are refused") {
  const Runtime runtime;
  cudaArray_t array = nullptr;
  for (const cudaChannelFormatDesc& wrong :
       {cudaCreateChannelDesc(8, 16, 0, 0, cudaChannelFormatKindSigned),
        cudaCreateChannelDesc(8, 8, 8, 0, cudaChannelFormatKindSigned),
        cudaCreateChannelDesc(0, 8, 0, 0, cudaChannelFormatKindSigned),
        cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindFloat)}) {
    CHECK(cudaMallocArray(&array, &wrong, 8, 8) == cudaErrorInvalidChannelDescriptor);
  }
  CHECK(cudaMallocArray(&array, nullptr, 8, 8) == cudaErrorInvalidValue);
}

TEST_CASE("an array of a format that the runtime has no plain channels for is not measured") {
  const Runtime runtime;
  Must(cudaFree(nullptr));  // makes the context current
  const CUDA_ARRAY3D_DESCRIPTOR shape{8, 4, 0, CU_AD_FORMAT_UNORM_INT8X1, 1, 0};
  CUarray drivers = nullptr;
  REQUIRE(cuArray3DCreate_v2(&drivers, &shape) == CUDA_SUCCESS);
  const auto array = reinterpret_cast<cudaArray_t>(drivers);
  const Bytes from = Counted(8);
  CHECK(cudaMemcpyToArray(array, 0, 0, from.data(), 8, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidChannelDescriptor);
  cudaChannelFormatDesc description{};
  Must(cudaGetChannelDesc(&description, array));
  CHECK(description.f == cudaChannelFormatKindNone);
}

TEST_CASE("rectangles go to arrays, between them, and back") {
  const Runtime runtime;
  cudaArray_t one = NewArray(6, 4);
  cudaArray_t other = NewArray(6, 4);
  const Bytes from = Counted(24);
  Must(cudaMemcpy2DToArray(one, 0, 0, from.data(), 6, 6, 4, cudaMemcpyHostToDevice));
  CHECK(ReadArray(one, 6, 4) == from);
  const Bytes zeros(24);
  Must(cudaMemcpy2DToArrayAsync(other, 0, 0, zeros.data(), 6, 6, 4, cudaMemcpyHostToDevice,
                                nullptr));
  Must(cudaMemcpy2DArrayToArray(other, 1, 1, one, 0, 0, 2, 2, cudaMemcpyDeviceToDevice));
  Bytes part(6);
  Must(cudaMemcpy2DFromArrayAsync(part.data(), 3, other, 1, 1, 3, 2, cudaMemcpyDeviceToHost,
                                  nullptr));
  Must(cudaDeviceSynchronize());
  CHECK(part == Bytes{1, 2, 0, 7, 8, 0});
}

TEST_CASE("bytes that go to an array in the order of memory go on in its next row") {
  const Runtime runtime;
  cudaArray_t one = NewArray(6, 4);
  cudaArray_t other = NewArray(8, 3);
  const Bytes from = Counted(24);
  Must(cudaMemcpyToArray(one, 0, 0, from.data(), 24, cudaMemcpyHostToDevice));
  CHECK(ReadArray(one, 6, 4) == from);
  Must(cudaMemcpyToArrayAsync(one, 4, 1, from.data(), 5, cudaMemcpyHostToDevice, nullptr));
  Must(cudaDeviceSynchronize());
  Bytes read(9);
  Must(cudaMemcpyFromArray(read.data(), one, 2, 1, 9, cudaMemcpyDeviceToHost));
  CHECK(read == Bytes{9, 10, 1, 2, 3, 4, 5, 16, 17});
  Must(cudaMemcpyArrayToArray(other, 0, 0, one, 0, 0, 24, cudaMemcpyDeviceToDevice));
  Must(cudaMemcpyFromArrayAsync(read.data(), other, 2, 1, 9, cudaMemcpyDeviceToHost, nullptr));
  Must(cudaDeviceSynchronize());
  CHECK(read == Bytes{1, 2, 3, 4, 5, 16, 17, 18, 19});
  // The last row ends.
  CHECK(cudaMemcpyToArray(one, 4, 3, from.data(), 5, cudaMemcpyHostToDevice) != cudaSuccess);
}

TEST_CASE("a mipmapped array has its levels") {
  const Runtime runtime;
  cudaMipmappedArray_t mipmapped = nullptr;
  cudaArray_t level = nullptr;
  cudaExtent extent{};
  Must(cudaMallocMipmappedArray(&mipmapped, &kByte, {16, 8, 0}, 3));
  Must(cudaGetMipmappedArrayLevel(&level, mipmapped, 2));
  Must(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
  CHECK(extent.width == 4);
  CHECK(extent.height == 2);
  CHECK(cudaGetMipmappedArrayLevel(&level, mipmapped, 3) != cudaSuccess);
  Must(cudaFreeMipmappedArray(mipmapped));
}

TEST_CASE("textures and surfaces say what they were made of, and the driver says the same") {
  const Runtime runtime;
  cudaResourceDesc resource{};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear = {Allocated(256), kTwoShorts, 256};
  cudaTextureDesc texture{};
  texture.addressMode[0] = cudaAddressModeMirror;
  texture.readMode = cudaReadModeElementType;
  texture.normalizedCoords = 1;
  texture.borderColor[2] = 0.5F;
  cudaTextureObject_t object = 0;
  Must(cudaCreateTextureObject(&object, &resource, &texture, nullptr));
  cudaResourceDesc found{};
  cudaTextureDesc how{};
  Must(cudaGetTextureObjectResourceDesc(&found, object));
  Must(cudaGetTextureObjectTextureDesc(&how, object));
  CHECK(found.res.linear.devPtr == resource.res.linear.devPtr);
  CHECK(found.res.linear.desc.y == 16);
  CHECK(how.addressMode[0] == cudaAddressModeMirror);
  CHECK(how.readMode == cudaReadModeElementType);
  CHECK(how.normalizedCoords == 1);
  CHECK(how.sRGB == 0);
  CHECK(how.borderColor[2] == 0.5F);
  CUDA_TEXTURE_DESC drivers{};
  REQUIRE(cuTexObjectGetTextureDesc(&drivers, object) == CUDA_SUCCESS);
  CHECK(drivers.flags == (CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES));
  cudaResourceViewDesc view{};
  Must(cudaGetTextureObjectResourceViewDesc(&view, object));
  CHECK(view.width == 0);  // it has none
  Must(cudaDestroyTextureObject(object));

  cudaSurfaceObject_t surface = 0;
  CHECK(cudaCreateSurfaceObject(&surface, &resource) == cudaErrorInvalidValue);  // of arrays only
  resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = NewArray(4, 4);
  Must(cudaCreateSurfaceObject(&surface, &resource));
  Must(cudaGetSurfaceObjectResourceDesc(&found, surface));
  CHECK(found.res.array.array == resource.res.array.array);
  Must(cudaDestroySurfaceObject(surface));

  view.width = 4;
  view.height = 4;
  Must(cudaCreateTextureObject(&object, &resource, &texture, &view));
  cudaResourceViewDesc told{};
  Must(cudaGetTextureObjectResourceViewDesc(&told, object));
  CHECK(told.width == 4);
}

TEST_CASE("a box goes from one device to the other") {
  const Runtime runtime;
  void* const from = Allocated(24);
  Must(cudaMemcpy(from, Counted(24).data(), 24, cudaMemcpyHostToDevice));
  Must(cudaSetDevice(1));
  void* const to = Allocated(24);
  cudaMemcpy3DPeerParms copy{};
  copy.srcPtr = {from, 6, 6, 4};
  copy.dstPtr = {to, 6, 6, 4};
  copy.dstDevice = 1;
  copy.extent = {6, 4, 1};
  Must(cudaMemcpy3DPeer(&copy));
  CHECK(Read(to, 24) == Counted(24));
  Must(cudaMemset(to, 0, 24));
  Must(cudaMemcpy3DPeerAsync(&copy, nullptr));
  CHECK(Read(to, 24) == Counted(24));
  copy.srcDevice = 7;
  CHECK(cudaMemcpy3DPeer(&copy) == cudaErrorInvalidDevice);
}

TEST_CASE("several copies are one call") {
  const Runtime runtime;
  cudaStream_t stream = nullptr;
  Must(cudaStreamCreate(&stream));
  Bytes from = Counted(16);
  void* to[] = {Allocated(8), Allocated(8)};
  const void* sources[] = {from.data(), from.data() + 8};
  const std::size_t sizes[] = {8, 4};
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::size_t first = 0;
  Must(cudaMemcpyBatchAsync(to, sources, sizes, 2, &attributes, &first, 1, stream));
  Must(cudaStreamSynchronize(stream));
  CHECK(Read(to[0], 8) == Counted(8));
  CHECK(Read(to[1], 8) == Bytes{9, 10, 11, 12, 0, 0, 0, 0});
}

TEST_CASE("what was advised of managed memory is told, as the driver tells it") {
  const Runtime runtime;
  void* memory = nullptr;
  Must(cudaMallocManaged(&memory, 4096));
  Must(cudaMemAdvise(memory, 4096, cudaMemAdviseSetReadMostly, On(0)));
  Must(cudaMemAdvise(memory, 4096, cudaMemAdviseSetPreferredLocation, On(1)));
#if CUDART_VERSION >= 13000
  cudaMemLocation place = On(1);
  std::size_t bytes = 4096;
  std::size_t first = 0;
  cudaStream_t batches = nullptr;
  Must(cudaStreamCreate(&batches));
  Must(cudaMemDiscardBatchAsync(&memory, &bytes, 1, 0, batches));
  CHECK(cudaMemDiscardBatchAsync(&memory, &bytes, 0, 0, batches) == cudaErrorInvalidValue);
  Must(cudaMemPrefetchBatchAsync(&memory, &bytes, 1, &place, &first, 1, 0, batches));
#else
  Must(cudaMemPrefetchAsync(memory, 4096, On(1), 0, nullptr));
#endif
  int read_mostly = 0;
  int preferred = -1;
  int prefetched = -1;
  Must(cudaMemRangeGetAttribute(&read_mostly, sizeof(int), cudaMemRangeAttributeReadMostly, memory,
                                4096));
  CHECK(read_mostly == 1);
  void* values[] = {&preferred, &prefetched};
  std::size_t sizes[] = {sizeof(int), sizeof(int)};
  cudaMemRangeAttribute attributes[] = {cudaMemRangeAttributePreferredLocation,
                                        cudaMemRangeAttributeLastPrefetchLocation};
  Must(cudaMemRangeGetAttributes(values, sizes, attributes, 2, memory, 4096));
  CHECK(preferred == 1);
  CHECK(prefetched == 1);
  int drivers = -1;
  REQUIRE(cuMemRangeGetAttribute(&drivers, sizeof(int), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                 reinterpret_cast<CUdeviceptr>(memory), 4096) == CUDA_SUCCESS);
  CHECK(drivers == preferred);
  cudaStream_t stream = nullptr;
  Must(cudaStreamCreate(&stream));
  Must(cudaStreamAttachMemAsync(stream, memory, 0, cudaMemAttachSingle));
}

TEST_CASE("pools are the driver's, and go through handles") {
  const Runtime runtime;
  cudaMemPool_t pool = nullptr;
  CUmemoryPool drivers = nullptr;
  cudaMemLocation where = On(0);
  Must(cudaMemGetDefaultMemPool(&pool, &where, cudaMemAllocationTypePinned));
  REQUIRE(cuDeviceGetDefaultMemPool(&drivers, 0) == CUDA_SUCCESS);
  CHECK(pool == drivers);

  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location = On(0);
  Must(cudaMemPoolCreate(&pool, &properties));
  Must(cudaMemSetMemPool(&where, cudaMemAllocationTypePinned, pool));
  cudaMemPool_t current = nullptr;
  Must(cudaMemGetMemPool(&current, &where, cudaMemAllocationTypePinned));
  CHECK(current == pool);
  Must(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == pool);

  cudaMemAccessFlags access{};
  Must(cudaMemPoolGetAccess(&access, pool, &where));
  CHECK(access == cudaMemAccessFlagsProtReadWrite);

  void* memory = nullptr;
  Must(cudaMallocFromPoolAsync(&memory, 4096, pool, nullptr));
  Must(cudaMemset(memory, 5, 4096));
  int file = -1;
  cudaMemPool_t imported = nullptr;
  cudaMemPoolPtrExportData data{};
  void* again = nullptr;
  Must(cudaMemPoolExportToShareableHandle(&file, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  Must(cudaMemPoolExportPointer(&data, memory));
  Must(cudaMemPoolImportFromShareableHandle(&imported,
                                            reinterpret_cast<void*>(static_cast<intptr_t>(file)),
                                            cudaMemHandleTypePosixFileDescriptor, 0));
  Must(cudaMemPoolImportPointer(&again, imported, &data));
  CHECK(Read(again, 4) == Bytes{5, 5, 5, 5});
  close(file);
  // Without it the device has its default pool again.
  Must(cudaFreeAsync(again, nullptr));
  Must(cudaFreeAsync(memory, nullptr));
  Must(cudaDeviceSynchronize());
  Must(cudaMemPoolDestroy(imported));
  Must(cudaMemPoolDestroy(pool));
  Must(cudaDeviceGetMemPool(&current, 0));
  CHECK(current == drivers);
  CHECK(cudaDeviceSetMemPool(0, pool) == cudaErrorInvalidValue);
}

TEST_CASE("the driver's refusal is the runtime's, and the last error") {
  const Runtime runtime;
  cudaArray_t array = NewArray(4, 4);
  CHECK(cudaArrayGetPlane(&array, array, 0) == cudaErrorInvalidValue);  // it has one
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidValue);
  cudaExternalMemory_t memory = nullptr;
  cudaExternalMemoryHandleDesc handle{};
  CHECK(cudaImportExternalMemory(&memory, &handle) == cudaErrorInvalidValue);  // of no type
  handle.type = cudaExternalMemoryHandleTypeOpaqueFd;
  CHECK(cudaImportExternalMemory(&memory, &handle) == cudaErrorNotSupported);
  CHECK(cudaPeekAtLastError() == cudaErrorNotSupported);
  std::size_t width = 0;
  std::size_t drivers = 0;
  Must(cudaDeviceGetTexture1DLinearMaxWidth(&width, &kByte, 0));
  REQUIRE(cuDeviceGetTexture1DLinearMaxWidth(&drivers, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0) ==
          CUDA_SUCCESS);
  CHECK(width == drivers);
}

TEST_CASE("a device's variable is a new one after the device's reset") {
  const Runtime runtime;
  const int values[] = {1, 2, 3, 4};
  int read[4] = {9, 9, 9, 9};
  Must(cudaMemcpyToSymbol(variable_on_host, values, sizeof(values), 0, cudaMemcpyHostToDevice));
  Must(cudaDeviceReset());
  Must(cudaMemcpyFromSymbol(read, variable_on_host, sizeof(read), 0, cudaMemcpyDeviceToHost));
  CHECK(read[0] == 0);
  CHECK(read[3] == 0);
}
