// A cubfc trace of PyTorch may record the same memory twice: as blocks that were allocated from the
// device, among them the segments of PyTorch's cache; and as the tensors that the cache put into
// segments (trace::Kind::kTensor). These functions leave one of the two.
#pragma once

#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Removes the tensors; the segments stay.
void leave_out_tensors(Recording& recording);

// Replaces the segments that tensors lie in by these tensors. A tensor becomes a block in the place
// of its segment. The segment's events are removed, and Recording::segments counts it. All other
// events stay. Does nothing without tensors.
//
// A tensor that lies in no block is in a segment that PyTorch has put together from physical memory
// (expandable_segments). Such tensors become blocks in a place for physical memory, and replace all
// physical memory that PyTorch has taken of the device.
void show_tensors(Recording& recording);

}  // namespace cubfc::recordings
