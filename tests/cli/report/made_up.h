// Recordings that nobody recorded: a load like a training's, with all that a recording can tell of,
// and recordings of random events, most of which make no sense. The same for the same seed.
#pragma once

#include <cstdint>

#include "cli/recordings/recording.h"

namespace made_up {

// About so many events. Callers, threads, two devices, places of all kinds, deferred frees, an
// arena that shrinks, out-of-memory moments. All of it makes sense.
cubfc::recordings::Recording training(std::uint32_t events, std::uint64_t seed);

// So many blocks live at once that no drawing has room for them: half of all events allocate small
// blocks that stay, the others free one and allocate another.
cubfc::recordings::Recording crowd(std::uint32_t events, std::uint64_t seed);

// Blocks that appear, end and overlap as they like, beside numbers that stand for nothing.
cubfc::recordings::Recording nonsense(std::uint32_t events, std::uint64_t seed);

// Texts that would do harm where they are taken for more than text.
void make_hostile(cubfc::recordings::Recording& recording);

}  // namespace made_up
