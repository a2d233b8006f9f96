// An arena's memory as pages that can be taken away from under its blocks and put back at the same
// addresses (sleep/sleeper.h).
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "arena/units.h"

namespace cubfc {

// One thread at a time calls these. A function that returns the driver's answer returns
// CUDA_SUCCESS or the driver's error.
class MovablePages {
 public:
  virtual ~MovablePages() = default;

  // From now on the arena's calls for pages are refused: it keeps all that it has, and gets no
  // more. Waits for calls that are under way, 2 seconds at most. False, and nothing is refused, if
  // one is still under way then.
  virtual bool hold() noexcept = 0;
  // The arena's calls are served again.
  virtual void let_go() noexcept = 0;

  // All below: precondition: hold() has returned true.
  virtual std::uint64_t page_size() const noexcept = 0;
  // The addresses of all pages that are mapped, in order. Throws std::bad_alloc.
  virtual std::vector<arena::Address> mapped_pages() const = 0;

  // Unmaps `count` pages that lie side by side, and gives their memory back to the driver and to
  // the limit. If the driver does not unmap them, nothing has changed. If the driver then does not
  // take back a page's memory, that page keeps it, unmapped.
  virtual CUresult take_away(arena::Address first, std::size_t count) noexcept = 0;
  // Gets memory for each page that has none, all or none of them: from the limit, then from the
  // driver. CUDA_ERROR_OUT_OF_MEMORY if either has too little. The memory is not mapped yet.
  virtual CUresult get_memory() noexcept = 0;
  // Gives back what get_memory() has got and put_back() has not mapped.
  virtual void drop_memory() noexcept = 0;
  // Calls what(). Meanwhile the arena may give up pages that are away and for which `may_go` is
  // true, by its call for unmapping. Neither may throw; `may_go` must take no lock.
  virtual void give_up_while(const std::function<void()>& what,
                             const std::function<bool(arena::Address)>& may_go) noexcept = 0;
  // Whether the page of this address is away.
  virtual bool is_away(arena::Address address) const noexcept = 0;
  // Maps `count` pages that lie side by side, for the device and its peers. Precondition:
  // get_memory() was a success. If the driver fails, none of them is mapped.
  virtual CUresult put_back(arena::Address first, std::size_t count) noexcept = 0;
};

}  // namespace cubfc
