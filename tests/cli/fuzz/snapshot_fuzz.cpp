#include "cli/recordings/pytorch_snapshot.h"
#include "read.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cubfc::recordings;
  read_fuzzed(data, size, [](Input& input) { read_pytorch_snapshot(input); });
  return 0;
}
