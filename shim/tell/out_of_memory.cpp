#include "shim/tell/out_of_memory.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "shim/tell/log.h"

namespace cubfc {
namespace {

constexpr std::size_t kMapColumns = 100;

std::string command_line() {
  std::array<char, 128> text{};
  std::FILE* file = std::fopen("/proc/self/cmdline", "re");
  if (file == nullptr) {
    return "?";
  }
  const std::size_t size = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  std::string line;
  for (std::size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    line += byte == 0 ? ' ' : byte < 0x20 ? '?' : static_cast<char>(byte);
  }
  while (!line.empty() && line.back() == ' ') {
    line.pop_back();
  }
  return size == text.size() ? line + "..." : line;
}

struct SizeClass {
  std::uint64_t below;  // bytes
  const char* text;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

std::string sizes_of(const std::vector<arena::BlockSnapshot>& blocks) {
  std::array<SizeClass, 3> classes{
      {{1ULL << 20, "below 1 MiB"}, {64ULL << 20, "of 1..64 MiB"}, {~0ULL, "of 64 MiB and more"}}};
  for (const arena::BlockSnapshot& block : blocks) {
    if (block.state == arena::BlockState::kFree) {
      continue;
    }
    for (SizeClass& size_class : classes) {
      if (block.bytes < size_class.below) {
        size_class.bytes += block.bytes;
        ++size_class.count;
        break;
      }
    }
  }
  std::string text;
  for (auto size_class = classes.rbegin(); size_class != classes.rend(); ++size_class) {
    if (size_class->count > 0) {
      text += format("{}{} in {} {}", text.empty() ? "" : " · ", log::bytes(size_class->bytes),
                     size_class->count, size_class->text);
    }
  }
  return text.empty() ? "none" : text;
}

// Only what would help here and is not set already.
std::string advice(const config::Policy& policy, const arena::Stats& stats, arena::Failure failure,
                   std::uint64_t device_free, std::uint64_t asked) {
  if (policy.limit_unreadable) {
    return policy.limit_explanation;
  }
  const config::Origin* limit = policy.limit_origin();
  if (failure == arena::Failure::kOverLimit && limit != nullptr) {
    return format("a higher limit ({}), if the device has the memory to spare", limit->text());
  }
  if (policy.reserve.value > 0 && device_free >= asked) {
    return format("a smaller CUBFC_RESERVE ({} is kept free)", log::bytes(policy.reserve.value));
  }
  if (failure == arena::Failure::kFragmented && stats.regions > 4 && !policy.preallocate.value) {
    return "CUBFC_PREALLOCATE=true: one region instead of many fragments less";
  }
  return {};
}

// The device's arena that holds most; nullptr when there is none.
const Context* largest_on(const Contexts& contexts, const Device& device) {
  const Context* largest = nullptr;
  std::uint64_t most = 0;
  for (const Context* each = contexts.first(); each != nullptr; each = each->next) {
    const std::uint64_t bytes = each->alive() ? each->arena.stats().pool_bytes : 0;
    if (&each->device == &device && each->alive() && (largest == nullptr || bytes > most)) {
      largest = each;
      most = bytes;
    }
  }
  return largest;
}

// The device's memory in all arenas of this process.
std::uint64_t in_arenas(const Contexts& contexts, const Device& device) {
  std::uint64_t bytes = 0;
  for (const Context* each = contexts.first(); each != nullptr; each = each->next) {
    bytes += &each->device == &device ? each->arena.stats().pool_bytes : 0;
  }
  return bytes;
}

// What it holds of the device itself beside them. Managed memory may lie on the host.
std::uint64_t held(const Device& device) {
  return device.held(Holding::kPlain) + device.held(Holding::kOwnPool) +
         device.held(Holding::kPool) + device.pools.unclaimed() + device.held(Holding::kPhysical) +
         device.held(Holding::kArray);
}

// "1.00 GiB by cuMemCreate, 2.00 MiB in arrays"; empty when the program holds nothing outside.
std::string held_outside(const Device& device) {
  constexpr std::array<std::pair<Holding, const char*>, kHoldings> kNames{
      {{Holding::kPlain, "by cuMemAlloc past the arena"},
       {Holding::kOwnPool, "by cuMemAlloc from cubfc's pool"},
       {Holding::kPool, "from pools"},
       {Holding::kManaged, "managed"},
       {Holding::kPhysical, "by cuMemCreate"},
       {Holding::kArray, "in arrays"}}};
  std::string text;
  for (const auto& [holding, name] : kNames) {
    if (const std::uint64_t bytes = device.held(holding); bytes > 0) {
      text += format("{}{} {}", text.empty() ? "" : ", ", log::bytes(bytes), name);
    }
  }
  if (const std::uint64_t idle = device.pools.unclaimed(); idle > 0) {
    text += format("{}{} kept by pools and graphs", text.empty() ? "" : ", ", log::bytes(idle));
  }
  return text;
}

std::string cause(const config::Policy& policy, const arena::Stats& stats, std::uint64_t bytes,
                  arena::Failure failure) {
  if (policy.limit_unreadable) {
    return "the limit cannot be read, so nothing is allocated";
  }
  // Else it would have been waited for.
  if (stats.bytes_retired >= bytes) {
    return "waiting: memory that was freed while a stream captures is used again when it has ended";
  }
  return arena::describe(failure);
}

struct DeviceNow {
  bool known;  // the device is the current context's, and the driver has told
  std::size_t free_bytes;
  std::size_t total_bytes;
};

DeviceNow ask(const DriverFunctions& driver, const Device& device) {
  DeviceNow now{false, 0, device.total_bytes};
  CUdevice current = -1;
  now.known = driver.cuCtxGetDevice(&current) == CUDA_SUCCESS && current == device.handle &&
              driver.cuMemGetInfo_v2(&now.free_bytes, &now.total_bytes) == CUDA_SUCCESS;
  return now;
}

std::string describe(const DriverFunctions& driver, const config::Policy& policy,
                     const Contexts& contexts, const Device& device, const Context* context,
                     const char* function, std::uint64_t bytes, arena::Failure failure) {
  const arena::Stats stats = context == nullptr ? arena::Stats{} : context->arena.stats();
  const arena::Budget& budget = device.budget;
  const DeviceNow now = ask(driver, device);
  const config::Origin* limit = policy.limit_origin();

  std::string text = format("out of memory on GPU {}, pid {} ({}), thread {}\n", device.handle,
                            getpid(), command_line(), syscall(SYS_gettid));
  text += format("  asked     {} by {}      largest free block {}\n", log::bytes(bytes), function,
                 log::bytes(stats.largest_free_block_bytes));
  text += format("  arena     {} in use{} + {} free = {}, limit {}\n",
                 log::bytes(stats.bytes_in_use - stats.bytes_retired),
                 stats.bytes_retired == 0 ? ""
                                          : format(" + {} freed and waiting for the device",
                                                   log::bytes(stats.bytes_retired)),
                 log::bytes(stats.free_bytes()), log::bytes(stats.usable_bytes),
                 policy.limit_unreadable ? "that cannot be used"
                 : budget.limited() ? format("{} ({}), {} of it taken", log::bytes(budget.limit()),
                                             limit == nullptr ? "default" : limit->text(),
                                             log::bytes(budget.used()))
                                    : "none");
  const std::string outside = held_outside(device);
  if (!outside.empty()) {
    text += format("  outside   {}\n", outside);
  }
  if (now.known) {
    const std::uint64_t taken = now.total_bytes - now.free_bytes;
    const std::uint64_t ours =
        std::min<std::uint64_t>(in_arenas(contexts, device) + held(device), taken);
    text += format(
        "  device    {}: {} this process, {} elsewhere (contexts, modules, other processes), {} "
        "free\n",
        log::bytes(now.total_bytes), log::bytes(ours), log::bytes(taken - ours),
        log::bytes(now.free_bytes));
  }
  if (policy.reserve.value > 0) {
    text += format("  reserve   {} of the device stays free ({})\n",
                   log::bytes(policy.reserve.value), policy.reserve.origin.text());
  }
  text += format("  cause     {}\n", cause(policy, stats, bytes, failure));
  if (stats.regions > 0) {
    const auto blocks = context->arena.snapshot();
    text += format("  blocks    {}\n", sizes_of(blocks));
    text += format("  map       {}\n", draw_map(blocks, kMapColumns));
  }
  if (const std::string try_this = advice(policy, stats, failure, now.free_bytes, bytes);
      !try_this.empty()) {
    text += format("  try       {}\n", try_this);
  }
  text.pop_back();
  return text;
}

}  // namespace

std::string draw_map(const std::vector<arena::BlockSnapshot>& blocks, std::size_t columns) {
  using Wide = unsigned __int128;  // bytes times columns
  Wide total = 0;
  for (const arena::BlockSnapshot& block : blocks) {
    total += block.bytes;
  }
  std::string map;
  std::size_t at = 0;
  Wide block_end = blocks.empty() ? 0 : Wide{blocks[0].bytes} * columns;
  for (std::size_t column = 0; column < columns && total > 0; ++column) {
    const Wide end = total * (column + 1);
    bool used = false;
    bool unused = false;
    for (;;) {
      (blocks[at].state == arena::BlockState::kFree ? unused : used) = true;
      if (block_end > end || at + 1 == blocks.size()) {
        break;  // it goes on in the next column
      }
      block_end += Wide{blocks[++at].bytes} * columns;
      if (block_end - Wide{blocks[at].bytes} * columns == end) {
        break;  // this one begins there
      }
    }
    map += used ? (unused ? 'x' : '*') : '_';
  }
  return map;
}

void OutOfMemoryReporter::report(const DriverFunctions& driver, const config::Policy& policy,
                                 const Contexts& contexts, const Device& device,
                                 const Context* context, const char* function, std::uint64_t bytes,
                                 arena::Failure failure) noexcept try {
  if (!log::enabled(log::Level::kWarn)) {
    return;
  }
  if (context == nullptr) {
    context = largest_on(contexts, device);
  }
  using std::chrono::steady_clock;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t now = steady_clock::now().time_since_epoch().count();
  std::int64_t last = last_full_ns_.load(std::memory_order_relaxed);
  if ((last == 0 || now - last >= 5 * kSecond) &&
      last_full_ns_.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    log::write(log::Level::kWarn,
               describe(driver, policy, contexts, device, context, function, bytes, failure));
    return;
  }
  unreported_.fetch_add(1, std::memory_order_relaxed);
  last = last_line_ns_.load(std::memory_order_relaxed);
  if (now - last >= kSecond &&
      last_line_ns_.compare_exchange_strong(last, now, std::memory_order_relaxed)) {
    log::warn(
        "out of memory again on GPU {}: {} by {} ({}); {} more since the report", device.handle,
        log::bytes(bytes), function,
        cause(policy, context == nullptr ? arena::Stats{} : context->arena.stats(), bytes, failure),
        unreported_.load(std::memory_order_relaxed));
  }
} catch (...) {
  log::write(log::Level::kWarn, "out of memory, and the host has none left for a report");
}

}  // namespace cubfc
