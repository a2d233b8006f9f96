// Any recording that can be read can be replayed. The first byte chooses the policy.
#include <array>

#include "cli/recordings/open_recording.h"
#include "cli/replay/player.h"
#include "read.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cubfc;
  if (size == 0) {
    return 0;
  }
  replay::Conditions conditions;
  constexpr std::array kAllocators{config::Allocator::kBfc, config::Allocator::kVmm,
                                   config::Allocator::kPlatform};
  conditions.policy.allocator.value = kAllocators.at(data[0] % kAllocators.size());
  if (data[0] % 2 == 1) {
    conditions.policy.free_mode.value = config::FreeMode::kDeferred;
  }
  if (data[0] % 8 < 4) {
    conditions.policy.mem_limit.value.others =
        cubfc::config::Amount{.bytes = std::uint64_t{data[0]} << 20, .share = 0};
  }
  if (data[0] % 16 < 8) {
    conditions.policy.preallocate.value = config::Preallocate::kWhole;
  }
  recordings::read_fuzzed(data + 1, size - 1, [&](recordings::Input& input) {
    const recordings::Recording recording = recordings::read_recording(input);
    for (const auto requests : {replay::Requests::kBlocks, replay::Requests::kSegments}) {
      const replay::Workload workload = replay::make_workload(recording, requests);
      replay::play(recording, workload, conditions, {});
    }
  });
  return 0;
}
