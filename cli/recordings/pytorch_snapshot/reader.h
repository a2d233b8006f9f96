// Finds in a snapshot's pickle what happened on each device. pytorch_snapshot.h says what is known
// of such a pickle.
#pragma once

#include <string>
#include <vector>

#include "cli/recordings/input.h"
#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot/history.h"

namespace cubfc::recordings {

// Without what is of no interest; throws BadRecording. `input`: what the pickle was read from. The
// stacks, which the histories refer to by their indices, are put into `stacks`, and for each of
// them who its caller was into `callers` (SnapshotStacks::take_callers()).
DeviceHistories read_histories(const Input& input, const Pickle& pickle,
                               std::vector<std::vector<std::string>>& stacks,
                               std::vector<std::string>& callers);

}  // namespace cubfc::recordings
