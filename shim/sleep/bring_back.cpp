// How a program wakes: it gets memory for all of its pages, or none; these are mapped where they
// were, and their bytes are copied back.
#include <algorithm>
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
    give_up_what_is_free();
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
    if (!part.has_ended()) {
      part.memory->drop_memory();
    }
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

// Calls what() in the part's context, and returns its answer. CUDA_SUCCESS, without a call, if the
// context has ended, or if an error has broken it for good: then its bytes are lost, whatever
// happens to its pages, and the calls of other contexts must not fail with it. Waits for a context
// that is about to end.
template <typename Do>
CUresult Sleeper::in_context(SleepingPart& part, Do what) {
  constexpr int kMostTries = 5;  // each waits as long as ContextUse does
  for (int tries = 0; tries < kMostTries; ++tries) {
    const ContextUse use(its_.contexts, *part.context);
    if (part.has_ended() || part.is_lost) {
      return CUDA_SUCCESS;
    }
    if (use.allowed()) {
      const PushedContext inside(driver_, part.context->handle);
      const CUresult result = inside.pushed() ? what() : inside.result();
      part.context->note(result);
      part.is_lost = result != CUDA_SUCCESS && part.context->is_broken(driver_);
      return part.is_lost ? CUDA_SUCCESS : result;
    }
  }
  return CUDA_ERROR_NOT_READY;
}

// Pages whose blocks the program has freed while it slept are not brought back: their arena gives
// them up, as it does when it trims.
void Sleeper::give_up_what_is_free() {
  for (SleepingPart& part : parts_) {
    in_context(part, [&] {
      arena::Arena& arena = part.context->arena;
      const std::uint64_t page_bytes = part.memory->page_size();
      for (SleepingPage& page : part.pages) {
        const auto block = arena.find_live_from(page.address);
        page.is_free = page.is_away && (!block || block->address >= page.address + page_bytes);
        if (page.is_free) {
          arena.memory_is_back(page.address, page_bytes);  // so release_unused() can report it gone
        }
      }
      part.memory->give_up_while(
          [&] { arena.release_unused(); },
          [&](arena::Address address) {
            const auto page = std::lower_bound(
                part.pages.begin(), part.pages.end(), address,
                [](const SleepingPage& each, arena::Address at) { return each.address < at; });
            return page != part.pages.end() && page->address == address && page->is_free;
          });
      std::erase_if(part.pages, [&](const SleepingPage& page) {
        const bool is_given_up = page.is_free && !part.memory->is_away(page.address);
        if (page.is_free && !is_given_up) {
          arena.memory_is_away(page.address, page_bytes);
        }
        return is_given_up;
      });
      return CUDA_SUCCESS;
    });
  }
}

// Gets memory for all pages of the context. While there is too little, looks for more as any
// request does: other processes are asked, and those that end are waited for.
CUresult Sleeper::get_memory(SleepingPart& part) {
  return in_context(part, [&] {
    Search search(its_.sources, part.context->device,
                  {.bytes = part.bytes_away(), .counted = true});
    CUresult result = CUDA_SUCCESS;
    do {
      result = part.memory->get_memory();
    } while (result == CUDA_ERROR_OUT_OF_MEMORY && search.finds_more());
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      part.context->device.use.refused(part.bytes_away(), "");  // `cubfc top` tells of it
    }
    return result;
  });
}

CUresult Sleeper::put_back(SleepingPart& part) {
  return in_context(part, [&] {
    CUresult result = CUDA_SUCCESS;
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
    char* buffer = nullptr;  // of the first page that has live bytes on
    for (SleepingPage& page : part.pages) {
      if (result == CUDA_SUCCESS && page.lacks_bytes) {
        result = page.live.empty() ? CUDA_SUCCESS : copy_in(page, buffer);
        page.lacks_bytes = result != CUDA_SUCCESS;
      }
    }
    // A copy from memory that is not pinned may still be under way when its call returns.
    return result == CUDA_SUCCESS ? driver_.cuStreamSynchronize(CU_STREAM_PER_THREAD) : result;
  });
}

CUresult Sleeper::copy_in(const SleepingPage& page, char*& buffer) {
  const arena::Address first = page.first_live();
  buffer = buffer == nullptr ? buffer_.of_bytes(page_bytes_) : buffer;
  if (buffer == nullptr) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (const SleepingPage::Piece& piece : page.live) {
    std::memcpy(buffer + (piece.address - first), store_.data() + piece.place, piece.bytes);
  }
  return driver_.cuMemcpyHtoD_v2_ptds(first, buffer, page.live_span());
}

}  // namespace cubfc
