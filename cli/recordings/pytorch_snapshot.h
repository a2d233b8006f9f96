// Reads what torch.cuda.memory._dump_snapshot() writes. Its layout, from PyTorch's source
// (torch/csrc/cuda/Module.cpp, c10/cuda/CUDACachingAllocator, torch/cuda/memory.py); a number in
// brackets is the version of PyTorch that began to write a field:
//
// A pickle (protocol 4, before Python 3.8: 3) of a dictionary; PyTorch 1.12 writes a pickle of the
// list of segments alone.
//   segments       what PyTorch has from the driver at the end; each: device, address, total_size,
//                  stream, is_expandable (2.1), and blocks in the order of their addresses: size,
//                  state ("active_allocated"; "active_pending_free", later "active_awaiting_free":
//                  freed by the program and used by a stream; "inactive"), address (2.1),
//                  requested_size (2.0), frames. Before 2.0 a block's first history entry had addr
//                  and frames.
//   device_traces  for each device a list of what happened (2.0), the oldest first; only the last
//                  max_entries are kept. Each: action, addr, size, stream, frames (if
//                  stacks were recorded), time_us (2.2; since 1970). For a block, size is what was
//                  asked for.
//     alloc, free_requested, free_completed   a block: given, freed by the program, free
//     segment_alloc, segment_free             memory of the driver's: taken, given back
//     segment_map, segment_unmap              the same for pages of an expandable segment
//     oom            size was asked for; device_free, instead of addr, is what the device had left
//     snapshot, ...  not used here
//   category       of a block or an entry, if PyTorch's profiler wrote it: "parameter", ...
//   frames         dictionaries: name, filename, line; the innermost first
//
// A block or a segment was there before the trace began if the first entry that names it frees it.
// So was one that is there at the end and that no entry names. Their events come first in the
// Recording (Recording::before), at the time of the first entry.
#pragma once

#include "cli/recordings/input.h"
#include "cli/recordings/recording.h"

namespace cubfc::recordings {

// Reads a whole snapshot; throws BadRecording. Each device is a place, and each stream one of the
// threads. A block has a kFree if its memory is free as soon as the program frees it, else a
// kRetire and a kReclaim. Segments have kGrow and kShrink. Without times, events are a nanosecond
// apart.
Recording read_pytorch_snapshot(Input& input);

}  // namespace cubfc::recordings
