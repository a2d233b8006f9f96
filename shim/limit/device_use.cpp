#include "shim/limit/device_use.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "shim/record/trace_recorder.h"

namespace cubfc {
namespace {

constexpr auto kArena = static_cast<std::size_t>(trace::Memory::kArena);

using arena::put;
using arena::read;

void add(arena::Figure& figure, std::uint64_t by) {
  put(figure, read(figure) + by);
}
void raise(arena::Figure& figure, std::uint64_t to) {
  put(figure, std::max(read(figure), to));
}

// Takes the first of the slots (of devices or of arenas) that is free, by setting its `taken` from
// 0 to `value`. Returns the slot's index plus 1; 0 if none is free.
template <typename Slots>
std::size_t take_slot(Slots& slots, std::uint32_t value,
                      std::atomic<std::uint32_t> Slots::value_type::*taken) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::uint32_t none = 0;
    if ((slots[i].*taken).compare_exchange_strong(none, value, std::memory_order_acq_rel)) {
      return i + 1;
    }
  }
  return 0;
}

}  // namespace

// Each arena of the device calls one of these.
class DeviceUse::ArenaObserver : public arena::Observer {
 public:
  explicit ArenaObserver(DeviceUse& use) : use_(use) {}

  void exceeded() noexcept override {
    const std::lock_guard lock(use_.lock_);
    use_.look_at_peak();
  }
  void changed() noexcept override { use_.changed(); }
  void resized() noexcept override {
    {
      const std::lock_guard lock(use_.lock_);
      use_.look_at_taken();
    }
    use_.resized();
  }

  bool records() const noexcept override { return use_.trace_ != nullptr; }
  void allocated(arena::Address address, std::uint64_t bytes, std::uint64_t padding,
                 arena::Caller caller) noexcept override {
    if (use_.trace_->stack_depth() > 0) [[unlikely]] {
      use_.trace_->record_stack();
    }
    use_.trace_->record({.kind = trace::Kind::kAllocate,
                         .address = address,
                         .bytes = bytes,
                         .padding = static_cast<std::uint32_t>(padding),
                         .place = place(),
                         .caller = caller});
  }
  void freed(const arena::FreedBlock& block) noexcept override {
    record(trace::Kind::kFree, block.address, block.bytes);
  }
  void retired(const arena::FreedBlock& block) noexcept override {
    record(trace::Kind::kRetire, block.address, block.bytes);
  }
  void reclaimed(std::span<const arena::FreedBlock> blocks) noexcept override {
    use_.trace_->record({.kind = trace::Kind::kReclaim, .place = place()}, blocks);
  }
  void grew(arena::Address address, std::uint64_t bytes) noexcept override {
    record(trace::Kind::kGrow, address, bytes);
  }
  void shrank(arena::Address address, std::uint64_t bytes) noexcept override {
    record(trace::Kind::kShrink, address, bytes);
  }
  void abandoned() noexcept override {
    if (place_ != 0) {
      use_.trace_->end_place(std::exchange(place_, std::uint8_t{0}));
    }
  }

 private:
  // The arena's place in the trace. It begins with the first record; the first record after
  // abandoned() begins another.
  std::uint8_t place() noexcept {
    if (place_ == 0) [[unlikely]] {
      static std::atomic<std::uint64_t> last_context{0};
      trace::PlaceText text = use_.place_text(Memory::kArena);
      text.context_id = ++last_context;
      place_ = use_.trace_->begin_place(text);
    }
    return place_;
  }
  void record(trace::Kind kind, arena::Address address, std::uint64_t bytes) noexcept {
    use_.trace_->record({.kind = kind, .address = address, .bytes = bytes, .place = place()});
  }

  DeviceUse& use_;
  std::uint8_t place_ = 0;
};

// `ready` is 2 while a place is taken and its device is not published yet.
DeviceUse::DeviceUse(figures::ProcessFigures& process, TraceRecorder* trace)
    : trace_(trace),
      process_(process),
      number_(take_slot(process.devices, 2, &figures::DeviceFigures::ready)),
      figures_(number_ > 0 ? process.devices[number_ - 1]
                           : *(apart_ = std::make_unique<figures::DeviceFigures>())) {}

// Frees the place if the device was not published, because another thread had made the same device
// known.
DeviceUse::~DeviceUse() {
  std::uint32_t not_published = 2;
  if (number_ > 0) {
    figures_.ready.compare_exchange_strong(not_published, 0, std::memory_order_release);
  }
}

void DeviceUse::observe(arena::Arena& arena) {
  const std::size_t slot = number_ == 0
                               ? 0
                               : take_slot(process_.arenas, static_cast<std::uint32_t>(number_),
                                           &figures::ArenaFigures::device);
  arena::Figures* figures = slot == 0 ? nullptr : &process_.arenas[slot - 1].figures;
  auto observer = std::make_unique<ArenaObserver>(*this);
  std::unique_ptr<arena::Figures> apart;
  if (figures == nullptr) {
    apart = std::make_unique<arena::Figures>();
    figures = apart.get();
  }
  arena.observe(*figures, *observer, figures_.peaks);
  const std::lock_guard lock(lock_);
  arenas_.push_back(figures);
  observers_.push_back(std::move(observer));
  if (apart != nullptr) {
    arenas_apart_.push_back(std::move(apart));
  }
  let_arenas_look(0);
}

void DeviceUse::watch(Watcher& watcher) noexcept {
  watcher_ = &watcher;
  is_watched_ = true;
}

void DeviceUse::changed() noexcept {
  if (is_watched_.load() && is_watched_.exchange(false)) {
    watcher_.load()->device_changed();
  }
}

void DeviceUse::resized() noexcept {
  if (Watcher* const watcher = watcher_.load(); watcher != nullptr) {
    changed();
    watcher->device_resized();
  }
}

std::uint64_t DeviceUse::in_arenas() const noexcept {
  std::uint64_t bytes = 0;
  for (const arena::Figures* const each : arenas_) {
    bytes += each->granules_in_use.load(std::memory_order_seq_cst) * arena::kGranuleBytes;
  }
  return bytes;
}

std::uint64_t DeviceUse::beside_arenas() const noexcept {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < figures_.of.size(); ++i) {
    bytes += i == kArena ? 0 : read(figures_.of[i].bytes_in_use);
  }
  return bytes;
}

// Called whenever more is in use, in an arena or outside. Adds up again if more has come into use
// in an arena meanwhile: that arena may have compared with the old bound, and so may not have
// called exceeded(). Precondition, here and in the next two functions: the lock is held.
void DeviceUse::look_at_peak() noexcept {
  std::uint64_t in_arenas = 0;
  do {
    in_arenas = this->in_arenas();
    const std::uint64_t all = in_arenas + beside_arenas();
    raise(figures_.of[kArena].peak_bytes_in_use, in_arenas);
    if (all > read(figures_.peak_bytes_in_use)) {
      put(figures_.peak_bytes_in_use, all);
      for (std::size_t i = 0; i < figures_.of.size(); ++i) {
        put(figures_.at_peak[i], i == kArena ? in_arenas : read(figures_.of[i].bytes_in_use));
      }
      add(figures_.peaks, 1);
    }
    // If the device has a single arena, that arena makes the next peak when it has more in use than
    // one of two numbers: the peak of the arenas, or the device's peak less what is in use outside
    // of the arenas.
    let_arenas_look(std::min(read(figures_.of[kArena].peak_bytes_in_use),
                             read(figures_.peak_bytes_in_use) - (all - in_arenas)));
  } while (this->in_arenas() > in_arenas);
}

// Sets a bound: an arena calls exceeded() when more bytes than this are in use in it. If there are
// several arenas, the bound is 0, because any allocation in any of them may make the next peak.
// look_at_peak() must read what arenas have in use after this store, so both are seq_cst.
void DeviceUse::let_arenas_look(std::uint64_t bytes) noexcept {
  for (arena::Figures* const each : arenas_) {
    each->look_at.store(arenas_.size() == 1 ? bytes / arena::kGranuleBytes : 0,
                        std::memory_order_seq_cst);
  }
}

void DeviceUse::look_at_taken() noexcept {
  changed();
  std::uint64_t bytes = read(figures_.bytes_reserved) + beside_arenas();
  for (const arena::Figures* const each : arenas_) {
    bytes += read(each->pool_bytes);
  }
  bytes = arena::less(bytes, read(figures_.bytes_asleep));
  put(figures_.bytes_taken, bytes);
  raise(figures_.peak_bytes_taken, bytes);
}

void DeviceUse::sleeps(std::uint64_t before, std::uint64_t bytes) noexcept {
  if (bytes == before) {
    return;
  }
  {
    const std::lock_guard lock(lock_);
    put(figures_.bytes_asleep, read(figures_.bytes_asleep) - before + bytes);
    look_at_taken();
  }
  resized();
  if (trace_ != nullptr) {
    const bool more = bytes > before;
    trace_->record({.kind = more ? trace::Kind::kSleep : trace::Kind::kWake,
                    .bytes = more ? bytes - before : before - bytes});
  }
}

void DeviceUse::begin(const Piece& piece) noexcept {
  begin(piece, Counted::kAsAllocation);
}

void DeviceUse::end_undone(const Piece& piece) noexcept {
  begin(piece, Counted::kNot);
}

void DeviceUse::begin(const Piece& piece, Counted counted) noexcept {
  const std::lock_guard lock(lock_);
  figures::MemoryFigures& of = figures_.of[static_cast<std::size_t>(piece.memory)];
  add(of.bytes_in_use, piece.bytes);
  if (counted == Counted::kAsAllocation) {
    add(of.num_allocs, 1);
  } else {
    put(of.num_frees, read(of.num_frees) - 1);
  }
  raise(of.peak_bytes_in_use, read(of.bytes_in_use));
  figures_.callers[piece.caller].change(piece.bytes, read(figures_.peaks));
  look_at_peak();
  look_at_taken();
  if (trace_ != nullptr) {
    record_begin(piece);
  }
}

trace::PlaceText DeviceUse::place_text(Memory memory) const noexcept {
  trace::PlaceText text{};
  text.device = static_cast<std::uint8_t>(figures_.number);
  text.memory = memory;
  return text;
}

// In the trace, memory outside of the arenas has one place for each kind of memory. A piece is
// recorded as growth of that place and as an allocation in it.
void DeviceUse::record_begin(const Piece& piece) noexcept {
  std::uint8_t& place = places_[static_cast<std::size_t>(piece.memory)];
  if (place == 0) {
    place = trace_->begin_place(place_text(piece.memory));
  }
  trace_->record(
      {.kind = trace::Kind::kGrow, .address = piece.address, .bytes = piece.bytes, .place = place});
  trace_->record_stack();
  trace_->record({.kind = trace::Kind::kAllocate,
                  .address = piece.address,
                  .bytes = piece.bytes,
                  .place = place,
                  .caller = piece.caller});
}

void DeviceUse::record_end(const Piece& piece) noexcept {
  for (const trace::Kind kind : {trace::Kind::kFree, trace::Kind::kShrink}) {
    trace_->record({.kind = kind,
                    .address = piece.address,
                    .bytes = piece.bytes,
                    .place = places_[static_cast<std::size_t>(piece.memory)]});
  }
}

void DeviceUse::publish() noexcept {
  figures_.ready.store(1, std::memory_order_release);
  if (trace_ == nullptr) {
    return;
  }
  struct {
    trace::DeviceText text;
    std::array<char, 64> name;
  } payload{};
  payload.text.total_bytes = figures_.total_bytes;
  payload.text.limit_bytes = read(figures_.limit_bytes);
  payload.text.uuid = figures_.uuid;
  const std::string_view name = figures_.name.get();
  name.copy(payload.name.data(), payload.name.size());
  trace_->record(
      {.kind = trace::Kind::kDevice, .address = static_cast<std::uint64_t>(figures_.number)},
      &payload, sizeof(payload.text) + name.size());
}

void DeviceUse::end(const Piece& piece) noexcept {
  const std::lock_guard lock(lock_);
  figures::MemoryFigures& of = figures_.of[static_cast<std::size_t>(piece.memory)];
  put(of.bytes_in_use, read(of.bytes_in_use) - piece.bytes);
  add(of.num_frees, 1);
  figures_.callers[piece.caller].change(~piece.bytes + 1, read(figures_.peaks));
  look_at_taken();
  if (trace_ != nullptr) {
    record_end(piece);
  }
}

void DeviceUse::refused(std::uint64_t bytes, std::string_view report) noexcept {
  {
    const std::lock_guard lock(lock_);
    add(figures_.refused, 1);
    put(figures_.last_refused_bytes, bytes);
  }
  if (trace_ != nullptr) {
    trace_->record({.kind = trace::Kind::kOutOfMemory, .address = bytes}, report);
    if (!report.empty()) {  // else a program that tries how much there is would flush often
      trace_->flush();
      trace_->tell_problem();
    }
  }
}

void DeviceUse::epoch_closed(std::uint64_t bytes, std::size_t blocks) noexcept {
  if (trace_ != nullptr) {
    trace_->record({.kind = trace::Kind::kEpoch,
                    .bytes = bytes,
                    .padding = static_cast<std::uint32_t>(blocks)});
  }
}

void DeviceUse::waited(std::chrono::nanoseconds time) noexcept {
  const auto ns = static_cast<std::uint64_t>(time.count());
  {
    const std::lock_guard lock(lock_);
    add(figures_.free_waits, 1);
    add(figures_.free_waits_ns, ns);
  }
  if (trace_ != nullptr) {
    trace_->record({.kind = trace::Kind::kWaited, .bytes = ns});
  }
}

void DeviceUse::failed(Memory memory) noexcept {
  const std::lock_guard lock(lock_);
  add(figures_.of[static_cast<std::size_t>(memory)].num_failures, 1);
}

std::vector<figures::CallerPart> DeviceUse::callers_now() const {
  if (number_ == 0) {
    return {};
  }
  return figures::callers_of(process_, figures::sum_of(process_, number_ - 1), figures::When::kNow);
}

void DeviceUse::reserved(std::uint64_t handle, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  add(figures_.bytes_reserved, bytes);
  look_at_taken();
  resized();
  record_reserve(trace::Kind::kGrow, handle, bytes);
}

void DeviceUse::no_longer_reserved(std::uint64_t handle, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(lock_);
  put(figures_.bytes_reserved, read(figures_.bytes_reserved) - bytes);
  look_at_taken();
  resized();
  record_reserve(trace::Kind::kShrink, handle, bytes);
}

void DeviceUse::record_reserve(trace::Kind kind, std::uint64_t handle,
                               std::uint64_t bytes) noexcept {
  if (trace_ == nullptr) {
    return;
  }
  if (reserve_place_ == 0) {
    reserve_place_ = trace_->begin_place(place_text(Memory::kMapped));
  }
  trace_->record({.kind = kind, .address = handle, .bytes = bytes, .place = reserve_place_});
}

void DeviceUse::driver_called() noexcept {
  const std::lock_guard lock(lock_);
  add(figures_.driver_calls, 1);
}

}  // namespace cubfc
