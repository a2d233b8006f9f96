// A cubfc trace of PyTorch may have two things of the same memory: the blocks that were allocated
// from the device, among them the segments of PyTorch's cache; and the tensors that the cache put
// into these (trace::Kind::kTensor). A recording is looked at with one of them.
#pragma once

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Leaves out the tensors.
void leave_out_tensors(Recording& recording);

// Puts tensors in the place of the segments that they lie in: they are allocated and freed in the
// segment's place, and the segment, which becomes none of the recording's events, is counted in
// Recording::segments. All else stays. Without tensors, nothing happens.
//
// A tensor that lies in no block is in a segment that was put together of physical memory
// (expandable_segments): it is in a place of such memory then, and takes the place of all physical
// memory that PyTorch has taken of that device.
void show_tensors(Recording& recording);

}  // namespace cubfc::recordings
