#include "cli/recordings/pickle.h"
#include "read.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cubfc::recordings;
  read_fuzzed(data, size, [](Input& input) {
    const Pickle pickle(input);
    static_cast<void>(pickle.find(pickle.root(), "segments"));
  });
  return 0;
}
