// A random program is a list of steps, each a call or two of the CUDA driver. Plain data: what a
// step may follow is the model's, how it is done is the runner's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace random_programs {

inline constexpr int kMostThreads = 4;

enum class Kind {
  kCreateContext,  // choice: the device
  kRetainPrimary,  // choice: the device
  kEndContext,     // choice: whether a primary one is reset before it is released
  kCreateStream,   // choice: a Flavour
  kDestroyStream,
  kAllocate,
  kAllocatePitch,
  kAllocateAsync,
  kFree,
  kFreeAsync,
  kWriteHost,  // a slot
  kFill,
  kCopyWithin,  // from block `source`
  kCopyOut,     // from the block to the slot
  kCopyIn,
  kRecord,
  kWait,
  kSynchronizeStream,
  kSynchronizeContext,
  kSynchronizeEvent,
  kBeginCapture,  // choice: a CUstreamCaptureMode
  kEndCapture,
  kLaunch,
  kDestroyGraph,
};

enum class Flavour { kBlocking, kNonBlocking, kPerThread, kLegacy };

// A piece of device memory is a block, one of page-locked host memory a slot. Each is filled as a
// whole, with one value: the number of the step that made it.
struct Step {
  Kind kind;
  int thread = 0;
  int context = -1;  // current during the call
  int stream = -1;
  int block = -1;
  int source = -1;
  int slot = -1;
  int event = -1;
  int graph = -1;
  int choice = 0;
  std::uint32_t words = 0;  // that are allocated, or written
  int number = 0;           // its place in the program as it was generated

  // For each thread the place of the last of its steps that has to be done before.
  std::array<int, kMostThreads> after{-1, -1, -1, -1};
};

using Steps = std::vector<Step>;

/// What a program has is numbered from 0, and -1 is none.
template <typename Things>
auto& at(Things& things, int number) {
  return things[static_cast<std::size_t>(number)];
}

/// "  12  thread 1: cuMemFree of block 3 in context 0".
std::string text_of(const Step& step);

}  // namespace random_programs
