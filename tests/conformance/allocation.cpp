// What an allocation gives: where it lies, what it holds, and when there is none.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <random>

#include "promise.h"

using namespace conformance;

PROMISE(every_allocation_starts_on_a_multiple_of_512,
        "Memory of cuMemAlloc is aligned for any kind of variable: to 512 bytes at least.") {
  std::vector<CUdeviceptr> blocks;
  for (std::size_t bytes = 1; bytes <= kMiB; bytes = bytes * 5 / 4 + 1) {
    blocks.push_back(allocate(bytes));
  }
  holds("all are aligned", std::ranges::all_of(blocks, [](auto b) { return b % 512 == 0; }));
  free_all(blocks);
}

PROMISE(a_pitch_covers_the_width_and_is_the_same_each_time,
        "Rows of cuMemAllocPitch lie a pitch apart that fits the width and keeps them aligned.") {
  for (const unsigned element : {4U, 8U, 16U}) {
    for (const std::size_t width : {1UL, 511UL, 512UL, 513UL, 100'000UL}) {
      CUdeviceptr block = 0;
      std::size_t pitch = 0;
      ok(cu.cuMemAllocPitch(&block, &pitch, width, 7, element));
      sees("pitch", static_cast<long long>(pitch));
      holds("fits", pitch >= width && pitch % element == 0 && block % 512 == 0);
      programs::write_pattern(cu, block, pitch * 7, 1);
      has_pattern("seven rows", block, pitch * 7, 1);
      ok(cu.cuMemFree(block));
    }
  }
}

PROMISE(wrong_pitches_are_refused,
        "cuMemAllocPitch takes elements of 4, 8 or 16 bytes, a width and a height above 0.") {
  CUdeviceptr block = 0;
  std::size_t pitch = 0;
  refuses("elements of 3", cu.cuMemAllocPitch(&block, &pitch, 100, 7, 3), CUDA_ERROR_INVALID_VALUE);
  refuses("width 0", cu.cuMemAllocPitch(&block, &pitch, 0, 7, 4));
  refuses("height 0", cu.cuMemAllocPitch(&block, &pitch, 100, 0, 4));
  refuses("no address", cu.cuMemAllocPitch(nullptr, &pitch, 100, 7, 4));
  refuses("no pitch", cu.cuMemAllocPitch(&block, nullptr, 100, 7, 4));
  refuses("too many rows", cu.cuMemAllocPitch(&block, &pitch, 1U << 20U, SIZE_MAX >> 20U, 4));
  refuses("too wide", cu.cuMemAllocPitch(&block, &pitch, SIZE_MAX, 2, 4));
}

PROMISE(zero_bytes_are_refused, "If the size is 0, cuMemAlloc returns CUDA_ERROR_INVALID_VALUE.") {
  CUdeviceptr block = 0;
  refuses("0 bytes", cu.cuMemAlloc(&block, 0), CUDA_ERROR_INVALID_VALUE);
}

PROMISE_ALONE(an_allocation_without_an_output_is_refused,
              "cuMemAlloc needs somewhere to put the address.") {
  const std::size_t before = memory_info().free;
  refuses("no output", cu.cuMemAlloc(nullptr, 64 * kMiB), CUDA_ERROR_INVALID_VALUE);
  refuses("no output and no bytes", cu.cuMemAlloc(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  holds("nothing is lost", memory_info().free >= before);
}

PROMISE(more_than_the_device_has_is_out_of_memory,
        "A request that cannot be met returns CUDA_ERROR_OUT_OF_MEMORY.") {
  const std::size_t total = memory_info().total;
  CUdeviceptr block = 0;
  for (const std::size_t bytes : {total + 1, 4 * total, SIZE_MAX / 2, SIZE_MAX - 600, SIZE_MAX}) {
    refuses("too much", cu.cuMemAlloc(&block, bytes), CUDA_ERROR_OUT_OF_MEMORY);
  }
}

PROMISE(an_allocation_needs_a_context,
        "Without a context bound to the thread, cuMemAlloc returns CUDA_ERROR_INVALID_CONTEXT.") {
  in_another_thread(nullptr, [] {
    CUdeviceptr block = 0;
    refuses("cuMemAlloc", cu.cuMemAlloc(&block, 100), CUDA_ERROR_INVALID_CONTEXT);
    std::size_t pitch = 0;
    refuses("cuMemAllocPitch", cu.cuMemAllocPitch(&block, &pitch, 100, 7, 4),
            CUDA_ERROR_INVALID_CONTEXT);
    refuses("cuMemGetInfo", cu.cuMemGetInfo(&pitch, &pitch), CUDA_ERROR_INVALID_CONTEXT);
  });
}

PROMISE_ALONE(
    running_out_of_memory_harms_nothing,
    "After CUDA_ERROR_OUT_OF_MEMORY what is allocated is intact, and less can still be had.") {
  const CUdeviceptr kept = allocate(kMiB, 1);
  const std::size_t half = memory_info().free / 2;
  const CUdeviceptr most = allocate(half);
  CUdeviceptr more = 0;
  refuses("twice as much", cu.cuMemAlloc(&more, memory_info().free + half),
          CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr small = allocate(kMiB, 2);
  has_pattern("what was there", kept, kMiB, 1);
  has_pattern("what came after", small, kMiB, 2);
  free_all({most, kept, small});
  grants("and half of it again", cu.cuMemAlloc(&more, half));
}

PROMISE_ALONE(
    what_is_said_to_be_free_can_be_allocated,
    "The free memory of cuMemGetInfo is there for cuMemAlloc, and back when it is freed.") {
  const std::size_t tenth = memory_info().free / 10;
  for (int round = 0; round < 3; ++round) {
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < 9; ++i) {
      blocks.push_back(allocate(tenth));
    }
    CUdeviceptr more = 0;
    refuses("two tenths more", cu.cuMemAlloc(&more, 2 * tenth), CUDA_ERROR_OUT_OF_MEMORY);
    free_all(blocks);
  }
}

PROMISE_ALONE(
    nearly_all_can_be_allocated_in_one_block,
    "An idle device gives nearly all that is free to one allocation, also after others.") {
  const std::size_t most = memory_info().free / 10 * 9;
  for (const std::size_t before : {512UL, 10 * kMiB, most / 2}) {
    ok(cu.cuMemFree(allocate(before)));
    CUdeviceptr block = 0;
    grants("nine tenths", cu.cuMemAlloc(&block, most));
    ok(cu.cuMemFree(block));
  }
}

PROMISE_ALONE(nearly_all_can_be_allocated_in_one_block_beside_a_small_one,
              "What is free is one piece when it always was.") {
  allocate(512);
  CUdeviceptr block = 0;
  grants("nine tenths", cu.cuMemAlloc(&block, memory_info().free / 10 * 9));
}

PROMISE(contents_survive_other_allocations,
        "Nobody but the program writes to its memory, whatever is allocated and freed around it.") {
  const CUdeviceptr kept = allocate(3'000'001, 1);
  for (std::uint32_t i = 0; i < 200; ++i) {
    const CUdeviceptr left = allocate(1 + i * 997 % 70'000, i);
    const CUdeviceptr right = allocate(1 + i * 331 % 500'000, i);
    free_all({left, right});
  }
  has_pattern("the block", kept, 3'000'001, 1);
}

PROMISE(blocks_never_overlap, "No byte belongs to two live allocations.") {
  std::mt19937 random(7);
  std::map<CUdeviceptr, std::size_t> live;
  bool apart = true;
  for (int i = 0; i < 2000; ++i) {
    if (live.size() > 100) {
      const auto victim = std::next(live.begin(), static_cast<int>(random() % live.size()));
      ok(cu.cuMemFree(victim->first));
      live.erase(victim);
    }
    const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 3 * kMiB : 20 * kKiB);
    const auto [here, fresh] = live.emplace(allocate(bytes), bytes);
    const auto next = std::next(here);
    apart =
        apart && fresh && (next == live.end() || here->first + bytes <= next->first) &&
        (here == live.begin() || std::prev(here)->first + std::prev(here)->second <= here->first);
  }
  holds("all are apart", apart);
}

PROMISE(every_byte_of_a_block_is_its_own,
        "Neighbours of all sizes are written to, and none is hurt.") {
  std::map<CUdeviceptr, std::size_t> blocks;
  for (std::size_t bytes = 1; bytes < 3 * kMiB; bytes = bytes * 3 / 2 + 1) {
    blocks[allocate(bytes, static_cast<std::uint32_t>(bytes))] = bytes;
  }
  std::size_t wrong = 0;
  for (const auto& [block, bytes] : blocks) {
    wrong += programs::count_mismatches(cu, block, bytes, static_cast<std::uint32_t>(bytes));
  }
  holds("every byte is as written", wrong == 0);
}

PROMISE(threads_get_blocks_of_their_own,
        "Many threads allocate, write, check and free at once, and none sees another's bytes.") {
  std::atomic<std::size_t> wrong = 0;
  std::vector<std::thread> threads;
  for (std::uint32_t id = 1; id <= 8; ++id) {
    threads.emplace_back([&wrong, id] {
      ok(cu.cuCtxSetCurrent(primary));
      const Stream stream;
      for (std::uint32_t i = 0; i < 30; ++i) {
        const std::size_t bytes = 1 + (id * 7919 + i * 104'729) % 60'000;
        const CUdeviceptr block = allocate(bytes);
        programs::write_pattern(cu, block, bytes, id << 16U | i, stream);
        wrong += programs::count_mismatches(cu, block, bytes, id << 16U | i);
        ok(cu.cuMemFree(block));
      }
    });
  }
  std::ranges::for_each(threads, &std::thread::join);
  holds("every byte is as written", wrong == 0);
}

PROMISE(memory_outlives_the_thread_that_allocated_it,
        "Memory belongs to a context, not to the thread that asked for it.") {
  CUdeviceptr block = 0;
  in_another_thread(primary, [&] { block = allocate(kMiB, 5); });
  has_pattern("the block", block, kMiB, 5);
  grants("its free", cu.cuMemFree(block));
}
