#include "shim/background/map_drawer.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "shim/device/contexts.h"
#include "shim/device/devices.h"
#include "shim/tell/out_of_memory_text.h"

namespace cubfc {

void MapDrawer::refresh_figures() noexcept {
  for (Context* context = contexts_.first(); context != nullptr; context = context->next) {
    if (context->alive()) {
      context->arena.refresh_figures();
    }
  }
}

void MapDrawer::draw_wanted() noexcept {
  contexts_.devices().for_each([&](Device& device) {
    figures::DeviceFigures& figures = device.use.figures();
    const std::uint32_t wanted = figures.map_wanted.load(std::memory_order_relaxed);
    if (wanted == figures.map_drawn.load(std::memory_order_relaxed)) {
      return;
    }
    if (drawing_.exchange(true)) {
      return;  // another thread draws one
    }
    try {
      std::vector<arena::BlockSnapshot> blocks;
      contexts_.for_each_alive_on(device, [&](const Context& context) {
        const auto its = context.arena.snapshot();
        blocks.insert(blocks.end(), its.begin(), its.end());
      });
      const std::string map = draw_map(blocks, figures.map.size());
      figures.map.fill(' ');
      std::copy(map.begin(), map.end(), figures.map.begin());
      figures.map_drawn.store(wanted, std::memory_order_release);
    } catch (const std::bad_alloc&) {  // no host memory: it is drawn another time
    }
    drawing_ = false;
  });
}

}  // namespace cubfc
