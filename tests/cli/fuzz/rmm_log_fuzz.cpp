#include "cli/recordings/rmm_log.h"
#include "read.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cubfc::recordings;
  read_fuzzed(data, size, [](Input& input) { read_rmm_log(input); });
  return 0;
}
