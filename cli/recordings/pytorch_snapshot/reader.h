// Finds in a snapshot's pickle what happened on each device. pytorch_snapshot.h says what is known
// of such a pickle.
#pragma once

#include "cli/recordings/input.h"
#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot/history.h"
#include "cli/recordings/pytorch_snapshot/names.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Without what is of no interest; throws BadRecording. `input`: what the pickle was read from. The
// stacks, which the histories refer to by their indices, are put into `recording`.
Histories read_histories(const Input& input, const Pickle& pickle, Recording& recording,
                         SnapshotNames& names);

}  // namespace cubfc::recordings
