// What the software driver promises of arrays, of copies to and from them, and of textures.
#include <cuda.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "catch.h"
#include "test_device.h"

using standin_test::Device;

namespace {

constexpr CUDA_ARRAY3D_DESCRIPTOR kShape{8, 4, 3, CU_AD_FORMAT_UNSIGNED_INT16, 2, 0};
constexpr std::size_t kRow = 8 * 4;  // bytes
constexpr std::size_t kBytes = kRow * 4 * 3;

std::vector<std::uint8_t> Counted(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  return bytes;
}

// All of the array, from or to memory of the host.
CUDA_MEMCPY3D Whole() {
  CUDA_MEMCPY3D copy{};
  copy.srcPitch = copy.dstPitch = kRow;
  copy.srcHeight = copy.dstHeight = 4;
  copy.WidthInBytes = kRow;
  copy.Height = 4;
  copy.Depth = 3;
  return copy;
}

CUresult Write(CUarray array, const std::vector<std::uint8_t>& bytes) {
  CUDA_MEMCPY3D copy = Whole();
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = bytes.data();
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  return cuMemcpy3D_v2(&copy);
}

std::vector<std::uint8_t> Read(CUarray array) {
  std::vector<std::uint8_t> bytes(kBytes);
  CUDA_MEMCPY3D copy = Whole();
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = bytes.data();
  REQUIRE(cuMemcpy3D_v2(&copy) == CUDA_SUCCESS);
  return bytes;
}

CUarray Made(const CUDA_ARRAY3D_DESCRIPTOR& shape = kShape) {
  CUarray array = nullptr;
  REQUIRE(cuArray3DCreate_v2(&array, &shape) == CUDA_SUCCESS);
  return array;
}

}  // namespace

TEST_CASE("an array tells the shape that it was made with") {
  const Device device;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  REQUIRE(cuArray3DGetDescriptor_v2(&shape, Made()) == CUDA_SUCCESS);
  CHECK(std::memcmp(&shape, &kShape, sizeof(shape)) == 0);
  CUDA_ARRAY_DESCRIPTOR flat{};
  REQUIRE(cuArrayGetDescriptor_v2(&flat, Made()) == CUDA_SUCCESS);
  CHECK(flat.Width == 8);
  CHECK(flat.Height == 4);
  CHECK(flat.Format == CU_AD_FORMAT_UNSIGNED_INT16);
  CHECK(flat.NumChannels == 2);
  const CUarray gone = Made();
  REQUIRE(cuArrayDestroy(gone) == CUDA_SUCCESS);
  CHECK(cuArrayGetDescriptor_v2(&flat, gone) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuArrayDestroy(gone) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuArrayDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a mipmapped array has levels of half the size, which go with it") {
  const Device device;
  CUmipmappedArray mipmapped = nullptr;
  REQUIRE(cuMipmappedArrayCreate(&mipmapped, &kShape, 3) == CUDA_SUCCESS);
  CUarray level = nullptr;
  REQUIRE(cuMipmappedArrayGetLevel(&level, mipmapped, 2) == CUDA_SUCCESS);
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  REQUIRE(cuArray3DGetDescriptor_v2(&shape, level) == CUDA_SUCCESS);
  CHECK(shape.Width == 2);
  CHECK(shape.Height == 1);
  CHECK(shape.Depth == 1);
  CHECK(cuMipmappedArrayGetLevel(&level, mipmapped, 3) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuArrayDestroy(level) == CUDA_SUCCESS);  // without effect
  CHECK(cuArray3DGetDescriptor_v2(&shape, level) == CUDA_SUCCESS);
  REQUIRE(cuMipmappedArrayDestroy(mipmapped) == CUDA_SUCCESS);
  CHECK(cuArray3DGetDescriptor_v2(&shape, level) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("an array's memory is counted once, with its levels") {
  const Device device;
  std::size_t before = 0;
  std::size_t after = 0;
  const CUDA_ARRAY3D_DESCRIPTOR shape{1024, 1024, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  REQUIRE(cuMemGetInfo_v2(&before, nullptr) == CUDA_SUCCESS);
  CUmipmappedArray mipmapped = nullptr;
  REQUIRE(cuMipmappedArrayCreate(&mipmapped, &shape, 2) == CUDA_SUCCESS);
  REQUIRE(cuMemGetInfo_v2(&after, nullptr) == CUDA_SUCCESS);
  CHECK(before - after >= 5 << 20);
  CHECK(before - after < 6 << 20);
  REQUIRE(cuMipmappedArrayDestroy(mipmapped) == CUDA_SUCCESS);
  REQUIRE(cuMemGetInfo_v2(&after, nullptr) == CUDA_SUCCESS);
  CHECK(after == before);
}

TEST_CASE("bytes written to an array are the bytes read, and a part of them by its place") {
  const Device device;
  const CUarray array = Made();
  CHECK(Read(array) == std::vector<std::uint8_t>(kBytes));  // nothing was written yet
  const std::vector<std::uint8_t> written = Counted(kBytes);
  REQUIRE(Write(array, written) == CUDA_SUCCESS);
  CHECK(Read(array) == written);

  std::vector<std::uint8_t> part(2 * 3);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.srcXInBytes = 5;
  copy.srcY = 1;
  copy.srcZ = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = part.data();
  copy.WidthInBytes = 3;
  copy.Height = 2;
  copy.Depth = 1;
  REQUIRE(cuMemcpy3D_v2(&copy) == CUDA_SUCCESS);
  for (std::size_t y = 0; y < 2; ++y) {
    for (std::size_t x = 0; x < 3; ++x) {
      CHECK(part[y * 3 + x] == written[2 * 4 * kRow + (1 + y) * kRow + 5 + x]);
    }
  }
  copy.srcXInBytes = kRow - 2;  // a byte too far
  CHECK(cuMemcpy3D_v2(&copy) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("rows, arrays and device memory are copied to each other") {
  const Device device;
  const std::vector<std::uint8_t> written = Counted(64);
  const CUarray first = Made({64, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0});
  const CUarray second = Made({64, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0});
  const CUdeviceptr memory = device.Allocate(64);
  REQUIRE(cuMemcpyHtoA_v2(first, 8, written.data(), 32) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyAtoA_v2(second, 0, first, 8, 32) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyAtoD_v2(memory, second, 4, 16) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoA_v2(first, 40, memory, 16) == CUDA_SUCCESS);
  std::vector<std::uint8_t> read(16);
  REQUIRE(cuMemcpyAtoH_v2(read.data(), first, 40, 16) == CUDA_SUCCESS);
  CHECK(read == std::vector<std::uint8_t>(written.begin() + 4, written.begin() + 20));
  CHECK(cuMemcpyHtoA_v2(first, 40, written.data(), 32) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoA_v2(first, 0, memory + 60, 16) != CUDA_SUCCESS);
}

TEST_CASE("a two-dimensional copy takes arrays, and leaves what is beside it") {
  const Device device;
  const CUarray array = Made({16, 4, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0});
  const std::vector<std::uint8_t> written = Counted(2 * 10);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = written.data();
  copy.srcPitch = 10;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.dstXInBytes = 3;
  copy.dstY = 1;
  copy.WidthInBytes = 8;
  copy.Height = 2;
  REQUIRE(cuMemcpy2D_v2(&copy) == CUDA_SUCCESS);
  std::vector<std::uint8_t> row(16);
  REQUIRE(cuMemcpyAtoH_v2(row.data(), array, 0, 16) == CUDA_SUCCESS);
  CHECK(row == std::vector<std::uint8_t>(16));
  CUDA_MEMCPY2D back{};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = array;
  back.srcY = 2;
  back.dstMemoryType = CU_MEMORYTYPE_HOST;
  back.dstHost = row.data();
  back.WidthInBytes = 16;
  back.Height = 1;
  REQUIRE(cuMemcpy2D_v2(&back) == CUDA_SUCCESS);
  CHECK(row[2] == 0);
  CHECK(row[3] == written[10]);
  CHECK(row[10] == written[17]);
  CHECK(row[11] == 0);
}

TEST_CASE("an asynchronous copy to an array has its place in the stream") {
  const Device device;
  const CUarray array = Made({16, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0});
  void* pinned = nullptr;
  CUstream stream = nullptr;
  REQUIRE(cuMemHostAlloc(&pinned, 16, 0) == CUDA_SUCCESS);
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  std::memset(pinned, 7, 16);
  standin_hold_stream(stream);
  REQUIRE(cuMemcpyHtoAAsync_v2(array, 0, pinned, 16, stream) == CUDA_SUCCESS);
  std::memset(pinned, 9, 16);
  std::uint8_t byte = 1;
  REQUIRE(cuMemcpyAtoH_v2(&byte, array, 0, 1) == CUDA_SUCCESS);
  CHECK(byte == 0);
  standin_release_stream(stream);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyAtoH_v2(&byte, array, 0, 1) == CUDA_SUCCESS);
  CHECK(byte == 9);
  REQUIRE(cuMemFreeHost(pinned) == CUDA_SUCCESS);
}

TEST_CASE("a box of device memory is copied with its pitch and its height") {
  const Device device;
  const CUdeviceptr from = device.Allocate(256);
  const std::vector<std::uint8_t> written = Counted(256);
  REQUIRE(cuMemcpyHtoD_v2(from, written.data(), 256) == CUDA_SUCCESS);
  std::vector<std::uint8_t> read(2 * 2 * 4);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = from;
  copy.srcPitch = 16;
  copy.srcHeight = 5;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = read.data();
  copy.dstPitch = 4;
  copy.dstHeight = 2;
  copy.WidthInBytes = 4;
  copy.Height = 2;
  copy.Depth = 2;
  REQUIRE(cuMemcpy3D_v2(&copy) == CUDA_SUCCESS);
  CHECK(read[0] == written[0]);
  CHECK(read[4] == written[16]);
  CHECK(read[8] == written[80]);
  CHECK(read[15] == written[80 + 16 + 3]);
  copy.srcDevice = from + 200;  // its last row ends behind the allocation
  CHECK(cuMemcpy3D_v2(&copy) != CUDA_SUCCESS);
}

TEST_CASE("a texture object tells what it was made from") {
  const Device device;
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = Made();
  CUDA_TEXTURE_DESC how{};
  how.filterMode = CU_TR_FILTER_MODE_LINEAR;
  how.maxAnisotropy = 4;
  CUtexObject texture = 0;
  REQUIRE(cuTexObjectCreate(&texture, &resource, &how, nullptr) == CUDA_SUCCESS);
  CUDA_RESOURCE_DESC same_resource{};
  CUDA_TEXTURE_DESC same{};
  CUDA_RESOURCE_VIEW_DESC view{};
  REQUIRE(cuTexObjectGetResourceDesc(&same_resource, texture) == CUDA_SUCCESS);
  CHECK(same_resource.res.array.hArray == resource.res.array.hArray);
  REQUIRE(cuTexObjectGetTextureDesc(&same, texture) == CUDA_SUCCESS);
  CHECK(std::memcmp(&same, &how, sizeof(how)) == 0);
  view.width = 1;
  CHECK(cuTexObjectGetResourceViewDesc(&view, texture) == CUDA_SUCCESS);
  CHECK(view.width == 0);  // none was given
  REQUIRE(cuTexObjectDestroy(texture) == CUDA_SUCCESS);
  CHECK(cuTexObjectDestroy(texture) == CUDA_ERROR_INVALID_VALUE);

  CUsurfObject surface = 0;
  REQUIRE(cuSurfObjectCreate(&surface, &resource) == CUDA_SUCCESS);
  CHECK(cuSurfObjectGetResourceDesc(&same_resource, surface) == CUDA_SUCCESS);
  CHECK(cuSurfObjectDestroy(surface) == CUDA_SUCCESS);
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = device.Allocate(64);
  resource.res.linear.sizeInBytes = 64;
  CHECK(cuSurfObjectCreate(&surface, &resource) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuTexObjectCreate(&texture, &resource, &how, nullptr) == CUDA_SUCCESS);
  resource.res.linear.sizeInBytes = 1 << 20;
  CHECK(cuTexObjectCreate(&texture, &resource, &how, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a texture reference is bound to one thing, and tells what was set") {
  const Device device;
  CUtexref reference = nullptr;
  REQUIRE(cuTexRefCreate(&reference) == CUDA_SUCCESS);
  CUarray bound = nullptr;
  CHECK(cuTexRefGetArray(&bound, reference) == CUDA_ERROR_INVALID_VALUE);
  const CUarray array = Made();
  REQUIRE(cuTexRefSetArray(reference, array, CU_TRSA_OVERRIDE_FORMAT) == CUDA_SUCCESS);
  REQUIRE(cuTexRefGetArray(&bound, reference) == CUDA_SUCCESS);
  CHECK(bound == array);
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  int channels = 0;
  REQUIRE(cuTexRefGetFormat(&format, &channels, reference) == CUDA_SUCCESS);
  CHECK(format == CU_AD_FORMAT_UNSIGNED_INT16);
  CHECK(channels == 2);
  REQUIRE(cuTexRefSetAddressMode(reference, 1, CU_TR_ADDRESS_MODE_CLAMP) == CUDA_SUCCESS);
  CUaddress_mode mode = CU_TR_ADDRESS_MODE_WRAP;
  REQUIRE(cuTexRefGetAddressMode(&mode, reference, 1) == CUDA_SUCCESS);
  CHECK(mode == CU_TR_ADDRESS_MODE_CLAMP);
  const CUdeviceptr memory = device.Allocate(64);
  REQUIRE(cuTexRefSetAddress_v2(nullptr, reference, memory, 64) == CUDA_SUCCESS);
  CHECK(cuTexRefGetArray(&bound, reference) == CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0;
  REQUIRE(cuTexRefGetAddress_v2(&address, reference) == CUDA_SUCCESS);
  CHECK(address == memory);
  REQUIRE(cuTexRefDestroy(reference) == CUDA_SUCCESS);
  CHECK(cuTexRefSetFlags(reference, 0) == CUDA_ERROR_INVALID_HANDLE);
}
