#include "shim/sleep/gates.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "shim/sleep/gate_count.h"
#include "shim/sleep/linked.h"

namespace cubfc::gates {
namespace {

constexpr std::size_t kGates = CUBFC_NARROW_GATES + CUBFC_WIDE_GATES;
#if defined(__x86_64__)
constexpr std::size_t kGateBytes = 64;
#elif defined(__aarch64__)
constexpr std::size_t kGateBytes = 128;
#endif
constexpr std::size_t kStoppedGateBytes = 16;

}  // namespace

// For gates.S. cubfc_gate_targets[i]: where gate i passes its calls to; nullptr: the gate is not in
// use yet. cubfc_gate_functions[i]: the function behind it.
extern "C" {
constinit thread_local Cell cubfc_gate_cell __attribute__((visibility("hidden"))) = {kMagic, 0};
__attribute__((visibility("hidden"))) std::atomic<void*> cubfc_gate_targets[kGates];
__attribute__((visibility("hidden"))) std::atomic<void*> cubfc_gate_functions[kGates];
__attribute__((visibility("hidden"))) extern const char cubfc_stopped_gates[];
__attribute__((visibility("hidden"))) CUresult cubfc_at_stopped_gate(
    const std::uintptr_t* arguments, std::size_t number);
}

namespace {

struct Name {
  std::string_view base;
  bool hands_out = false;
};
std::array<Name, kGates> names;  // of the gates; written before the gate's target

std::atomic<Keeper*> keeper{nullptr};
std::atomic<bool> is_stopped{false};
std::atomic<bool> is_registered{false};  // for membarrier

// Text of the program's, so it is copied.
constexpr std::size_t kMostOfName = 63;
std::array<char, kMostOfName + 1> ungated{};
std::atomic<bool> has_ungated{false};

void note_ungated(std::string_view name) noexcept {
  static std::atomic<bool> is_taken{false};
  if (!is_taken.exchange(true)) {
    name.copy(ungated.data(), kMostOfName);
    has_ungated.store(true, std::memory_order_release);
  }
}

void* code_of(std::size_t number) noexcept {
  return const_cast<char*>(cubfc_gates + number * kGateBytes);
}
void* stopped_code_of(std::size_t number) noexcept {
  return const_cast<char*>(cubfc_stopped_gates + number * kStoppedGateBytes);
}

// "cuMemcpyDtoH", of "cuMemcpyDtoH_v2_ptds".
std::string_view base_of(std::string_view name) noexcept {
  return name.substr(0, name.find('_'));
}

// Sets the gate's target to what it must be now. Another thread may stop or open the gates
// meanwhile, so looks again. Until that look, calls may pass a gate that should be stopped. So this
// thread's cell counts a call meanwhile: whoever has stopped the gates waits until this function is
// done, and then for the calls that have passed.
void set_target(std::size_t number) noexcept {
  struct Counted {
    Counted() noexcept { std::atomic_ref(own_cell().calls).fetch_add(1); }
    ~Counted() { std::atomic_ref(own_cell().calls).fetch_sub(1); }
  };
  const Counted counted;
  const auto must_stop = [number] { return is_stopped.load() || names[number].hands_out; };
  bool stopped = false;
  do {
    stopped = must_stop();
    cubfc_gate_targets[number].store(stopped ? stopped_code_of(number)
                                             : cubfc_gate_functions[number].load());
  } while (stopped != must_stop());
}

// The numbers of the gates of each kind, which are taken one after the other.
struct Numbers {
  std::size_t begin;
  std::size_t end;
};
constexpr Numbers kNarrow{0, CUBFC_NARROW_GATES};
constexpr Numbers kWide{CUBFC_NARROW_GATES, kGates};

// Calls what(number) for each gate that is in use.
template <typename What>
void for_each_gate(What what) noexcept {
  for (const Numbers& kind : {kNarrow, kWide}) {
    for (std::size_t i = kind.begin; i < kind.end && cubfc_gate_functions[i].load() != nullptr;
         ++i) {
      if (cubfc_gate_targets[i].load() != nullptr) {
        what(i);
      }
    }
  }
}

void set_all_targets() noexcept {
  for_each_gate(set_target);
}

}  // namespace

Cell& own_cell() noexcept {
  return cubfc_gate_cell;
}

void set_keeper(Keeper* its_keeper) noexcept {
  keeper.store(its_keeper, std::memory_order_release);
}

void* in_front_of(std::string_view name, void* function) noexcept {
  const Needed needed = needed_by(base_of(name));
  if (needed.what == Needed::What::kUnknown) {
    note_ungated(name);
  }
  if (needed.what == Needed::What::kUnknown || needed.what == Needed::What::kNothing) {
    return function;
  }
  const Numbers kind = needed.is_wide ? kWide : kNarrow;
  for (std::size_t i = kind.begin; i < kind.end; ++i) {
    if (function == code_of(i)) {
      return function;
    }
    void* known = nullptr;
    if (cubfc_gate_functions[i].compare_exchange_strong(known, function)) {
      names[i] = {needed.name, needed.what == Needed::What::kGateAlways};
      set_target(i);
      return code_of(i);
    }
    if (known == function) {
      while (cubfc_gate_targets[i].load() == nullptr) {
        // Another thread is between the two stores.
      }
      return code_of(i);
    }
  }
  note_ungated(name);
  return function;
}

bool synchronize_threads() noexcept {
  if (!is_registered.load()) {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) {
      return false;
    }
    is_registered.store(true);
  }
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool stop() noexcept {
  is_stopped.store(true);
  set_all_targets();
  if (synchronize_threads()) {
    return true;
  }
  open();
  return false;
}

void open() noexcept {
  is_stopped.store(false);
  set_all_targets();
}

void stop_next_call() noexcept {
  for_each_gate([](std::size_t i) { cubfc_gate_targets[i].store(stopped_code_of(i)); });
}

std::string_view ungated_function() noexcept {
  return has_ungated.load(std::memory_order_acquire) ? std::string_view(ungated.data())
                                                     : std::string_view();
}

// Called by gates.S. If the gates are open by now, sets all targets anew: stop_next_call() may have
// stopped them for this one call.
CUresult cubfc_at_stopped_gate(const std::uintptr_t* arguments, std::size_t number) {
  Keeper* const its_keeper = keeper.load(std::memory_order_acquire);
  if (its_keeper == nullptr) {
    return CUDA_SUCCESS;
  }
  const int error = errno;
  Call call{names[number].base, names[number].hands_out, {}};
  std::copy_n(arguments, call.arguments.size(), call.arguments.begin());
  const CUresult result = its_keeper->at_gate(call);
  if (!is_stopped.load()) {
    set_all_targets();
  }
  errno = error;
  return result;
}

}  // namespace cubfc::gates
