// Draws a map of the blocks in a device's arenas into the process's figures, when a reader has
// asked for one (`cubfc top`).
#pragma once

#include <atomic>

namespace cubfc {

class Contexts;

// Thread-safe.
class MapDrawer {
 public:
  explicit MapDrawer(Contexts& contexts) : contexts_(contexts) {}

  // Called by the thread of SoftReserve once a second, if there is one, and by requests that an
  // arena's fast path has not served. Takes next to no time if nobody has asked.
  void draw_wanted() noexcept;
  // Has each arena write those figures that it does not write at each call. Called by the same
  // thread once a second, and before SummaryKeeper or cubfc_stats() reads the figures.
  void refresh_figures() noexcept;

 private:
  std::atomic<bool> drawing_{false};
  Contexts& contexts_;
};

}  // namespace cubfc
