// Finds in a snapshot's pickle what happened on each device. pytorch_snapshot.h describes such a
// pickle.
#pragma once

#include "cli/recordings/input.h"
#include "cli/recordings/pickle.h"
#include "cli/recordings/pytorch_snapshot/history.h"
#include "cli/recordings/pytorch_snapshot/names.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Throws BadRecording. `input`: the file that the pickle was read from. Puts stacks, to which the
// histories refer by their indices, into `recording`, and streams and categories into `names`.
Histories read_histories(const Input& input, const Pickle& pickle, Recording& recording,
                         SnapshotNames& names);

}  // namespace cubfc::recordings
