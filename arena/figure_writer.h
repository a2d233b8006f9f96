// Writes what an arena counts to the Figures, and tells it to the Observer.
#pragma once

#include <cstdint>

#include "arena/block.h"
#include "arena/figures.h"
#include "arena/units.h"

namespace cubfc::arena {

// Not thread-safe: the arena's lock is held at each call. Does nothing before observe().
class FigureWriter {
 public:
  // See Arena::observe(). To be called once.
  void observe(Figures& figures, Observer& observer, const Figure& peaks) noexcept {
    figures_ = &figures;
    observer_ = &observer;
    recorder_ = observer.records() ? &observer : nullptr;
    peaks_ = &peaks;
  }
  // See Arena::watch().
  void watch() noexcept {
    if (figures_ != nullptr) {
      for (CallerFigures& each : figures_->callers) {
        each.watch();
      }
    }
  }
  // nullptr before observe().
  Figures* figures() const noexcept { return figures_; }
  // The observer, if it is to be told of each block; else nullptr.
  Observer* recorder() const noexcept { return recorder_; }

  // Precondition of the functions below: figures() is not nullptr.
  void allocated(const Block& block, Address address, std::uint64_t bytes,
                 std::uint64_t granules_in_use) {
    put(figures_->last_number, block.number());
    put(figures_->granules_in_use, granules_in_use);
    if (figures_->callers[block.caller()].change(block.granules, read(*peaks_))) [[unlikely]] {
      observer_->changed();
    }
    if (granules_in_use > read(figures_->look_at)) [[unlikely]] {
      observer_->exceeded();
    }
    if (recorder_ != nullptr) [[unlikely]] {
      recorder_->allocated(address, bytes, block.use.padding, block.caller());
    }
  }
  void unused(const Block& block, std::uint64_t granules_in_use) {
    put(figures_->granules_in_use, granules_in_use);
    if (figures_->callers[block.caller()].change(~std::uint64_t{block.granules} + 1, read(*peaks_)))
        [[unlikely]] {
      observer_->changed();
    }
  }
  void resized() { observer_->resized(); }
  // All blocks are gone.
  void abandoned() {
    put(figures_->granules_in_use, 0);
    put(figures_->granules_retired, 0);
    for (CallerFigures& each : figures_->callers) {
      each.change(~read(each.has) + 1, read(*peaks_));  // no changed() here: resized() is called
    }
    if (recorder_ != nullptr) {
      recorder_->abandoned();
    }
  }

 private:
  Figures* figures_ = nullptr;
  const Figure* peaks_ = nullptr;
  Observer* observer_ = nullptr;
  Observer* recorder_ = nullptr;  // observer_, if it records
};

}  // namespace cubfc::arena
