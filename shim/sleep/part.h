// What a sleeping program has of one context: which pages are away, and which bytes of theirs are
// in the host's store (sleeper.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "arena/units.h"
#include "shim/device/movable_pages.h"

namespace cubfc {

struct Context;

// A page, and the bytes of live blocks in it.
struct SleepingPage {
  arena::Address address;
  struct Piece {
    arena::Address address;
    std::uint64_t bytes;
    std::uint64_t place;  // in the store
  };
  std::vector<Piece> live;   // by address
  bool is_away = false;      // its memory was taken away
  bool is_free = false;      // while the program wakes: no live block lies in it
  bool lacks_bytes = false;  // from when it was taken away until its bytes are back

  // What one copy copies: from the first byte of `live` to the last, with the gaps between them.
  // Precondition: `live` is not empty.
  arena::Address first_live() const { return live.front().address; }
  std::uint64_t live_span() const {
    return live.back().address + live.back().bytes - live.front().address;
  }
};

// The pages of a context.
struct SleepingPart {
  Context* context;
  std::uint64_t id;  // of the context
  MovablePages* memory;
  std::vector<SleepingPage> pages = {};  // by address
  bool is_lost = false;                  // an error has broken the context for good
  std::uint64_t told_away = 0;           // bytes_away(), as the figures have it

  bool has_ended() const noexcept;  // the context has
  std::uint64_t bytes_away() const noexcept;

  // Calls what(first page, count) for each run of pages side by side that are away, or are not.
  template <typename What>
  void for_each_run(bool is_away, What what) const {
    for (std::size_t first = 0; first < pages.size();) {
      std::size_t end = first;
      while (end < pages.size() && pages[end].is_away == is_away &&
             pages[end].address == pages[first].address + (end - first) * memory->page_size()) {
        ++end;
      }
      if (end > first) {
        what(first, end - first);
      }
      first = std::max(end, first + 1);
    }
  }
};

}  // namespace cubfc
