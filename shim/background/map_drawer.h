// Draws what is where in a device's arenas into the process's figures, for whoever has asked for
// it (`cubfc top`).
#pragma once

#include <atomic>

namespace cubfc {

class Contexts;

// Thread-safe.
class MapDrawer {
 public:
  explicit MapDrawer(Contexts& contexts) : contexts_(contexts) {}

  // Called now and then: by cubfc's own thread once a second where there is one, and when an arena
  // has nothing at hand for a request. Next to nothing where nobody has asked.
  void draw_wanted() noexcept;
  // By that thread, before: so that no figure is older than a second.
  void refresh_figures() noexcept;

 private:
  std::atomic<bool> drawing_{false};
  Contexts& contexts_;
};

}  // namespace cubfc
