// How a program wakes: it gets memory for all of its pages, or none; these are mapped where they
// were, and their bytes are copied back.
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

#include "shim/device/context_use.h"
#include "shim/device/contexts.h"
#include "shim/driver/pushed_context.h"
#include "shim/driver/relaxed_capture.h"
#include "shim/sleep/sleeper.h"
#include "shim/source/search.h"
#include "shim/tell/log.h"

namespace cubfc {

// Waits until nobody moves memory, and wakes the program if it is asleep then. CUDA_SUCCESS: it is
// awake.
CUresult Sleeper::bring_back() noexcept {
  if (!begin(State::kAsleep, State::kWaking)) {
    return CUDA_SUCCESS;
  }
  const auto began = std::chrono::steady_clock::now();
  const std::uint64_t away = bytes_away_;
  CUresult result = CUDA_SUCCESS;
  try {
    forget_ended();
    tell_away();
    for (SleepingPart& part : parts_) {
      result = result == CUDA_SUCCESS ? get_memory(part) : result;
    }
    for (SleepingPart& part : parts_) {
      result = result == CUDA_SUCCESS ? put_back(part) : result;
    }
  } catch (const std::bad_alloc&) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (result == CUDA_SUCCESS) {
    tell_away();
    let_pages_go();
    end(State::kAwake);
    tell_awake(away, std::chrono::steady_clock::now() - began);
    return CUDA_SUCCESS;
  }
  take_away();  // what is mapped already
  for (const SleepingPart& part : parts_) {
    part.memory->drop_memory();
  }
  tell_away();
  const bool is_told = std::exchange(has_told_failure_, true);
  end(State::kAsleep);
  log::at(is_told ? log::Level::kDebug : log::Level::kWarn,
          "the memory of the sleeping program could not be brought back: driver says {}; the call "
          "fails, and the next one tries again",
          name_of(driver_, result));
  return result;
}

// Gets memory for all pages of the context. While there is too little, looks for more as any
// request does: other processes are asked, and those that end are waited for.
CUresult Sleeper::get_memory(SleepingPart& part) {
  const ContextUse use(its_.contexts, *part.context);
  if (!use.allowed()) {
    return CUDA_ERROR_NOT_READY;  // it may be about to end
  }
  const PushedContext inside(driver_, part.context->handle);
  if (!inside.pushed()) {
    return inside.result();
  }
  Search search(its_.sources, part.context->device, {.bytes = part.bytes_away(), .counted = true});
  CUresult result = CUDA_SUCCESS;
  do {
    result = part.memory->get_memory();
  } while (result == CUDA_ERROR_OUT_OF_MEMORY && search.finds_more());
  return result;
}

CUresult Sleeper::put_back(SleepingPart& part) {
  const ContextUse use(its_.contexts, *part.context);
  if (!use.allowed()) {
    return CUDA_ERROR_NOT_READY;
  }
  const PushedContext inside(driver_, part.context->handle);
  CUresult result = inside.result();
  part.for_each_run(/*is_away=*/true, [&](std::size_t first, std::size_t count) {
    const arena::Address address = part.pages[first].address;
    result = result == CUDA_SUCCESS ? part.memory->put_back(address, count) : result;
    if (result == CUDA_SUCCESS) {
      part.context->arena.memory_is_back(address, count * part.memory->page_size());
      for (std::size_t i = first; i < first + count; ++i) {
        part.pages[i].is_away = false;
      }
    }
  });
  const RelaxedCapture relaxed(driver_);
  for (SleepingPage& page : part.pages) {
    if (result == CUDA_SUCCESS && page.lacks_bytes) {
      result = page.live.empty() ? CUDA_SUCCESS : copy_in(page);
      page.lacks_bytes = result != CUDA_SUCCESS;
    }
  }
  if (result == CUDA_SUCCESS) {
    // A copy from memory that is not pinned may still be under way when its call returns.
    result = driver_.cuStreamSynchronize(CU_STREAM_PER_THREAD);
  }
  part.context->note(result);
  return result;
}

CUresult Sleeper::copy_in(const SleepingPage& page) {
  const arena::Address first = page.first_live();
  char* const buffer = buffer_.of_bytes(page_bytes_);
  if (buffer == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (const SleepingPage::Piece& piece : page.live) {
    std::memcpy(buffer + (piece.address - first), store_.data() + piece.place, piece.bytes);
  }
  return driver_.cuMemcpyHtoD_v2_ptds(first, buffer, page.live_span());
}

}  // namespace cubfc
