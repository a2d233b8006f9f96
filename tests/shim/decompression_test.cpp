// What stands for cuMemAlloc's memory can be used for hardware decompression, as that can.
#include "shim/test_context.h"

using namespace cubfc::test;

TEST_CASE("a block is made for hardware decompression where the device has it") {
  const TestContext context;
  int decompresses = 0;
  must(cuDeviceGetAttribute(&decompresses, static_cast<CUdevice_attribute>(136), 0));
  for (const std::size_t bytes : {std::size_t{1000}, std::size_t{100} << 20}) {
    int capable = -1;
    must(cuPointerGetAttribute(&capable, static_cast<CUpointer_attribute>(21), allocate(bytes)));
    CHECK(capable == (decompresses != 0 ? 1 : 0));
  }
}
