#include "shim/serve/announcement.h"

#include "shim/device/context.h"
#include "shim/tell/log.h"

namespace cubfc {

void announce(const DriverFunctions& driver, const config::Policy& policy,
              Context& context) noexcept try {
  if (context.announced || context.announced.exchange(true) || !log::enabled(log::Level::kWarn)) {
    return;
  }
  const DeviceLimit& limit = context.device.limit;
  const std::string limits =
      limit.origin() == nullptr
          ? "none"
          : format("{} ({}){}", log::bytes(limit.budget.limit()), limit.origin()->text(),
                   limit.group() == nullptr ? "" : " of group " + limit.group()->name());
  const Server& server = *context.device.server;
  if (const char* const what = server.description(); what != nullptr) {
    log::info("active on GPU {} ({}): {}; limit {}{}; version " CUBFC_VERSION,
              context.device.handle, context.device.name, what, limits,
              server.by == Server::By::kDriver
                  ? ""
                  : format(", free {} ({})", config::name_of(policy.free_mode.value),
                           policy.free_mode.origin.text()));
    return;
  }
  const Preallocation& shared = context.device.preallocation;
  const std::uint64_t has = context.arena.stats().pool_bytes + shared.bytes();
  const std::uint64_t wanted = context.preallocated + shared.planned();
  const bool less = has + (64U << 20) < wanted;
  // Other processes may start, and take memory, at the same moment. Where memory is soft, it does
  // no harm that there is less.
  const bool is_worth_a_warning = less && !policy.gives_to_others();
  log::at(
      is_worth_a_warning ? log::Level::kWarn : log::Level::kInfo,
      "active on GPU {} ({}): arena {} of {}{}, {}; limit {}, free {} ({}); version " CUBFC_VERSION,
      context.device.handle, context.device.name, log::bytes(has),
      log::bytes(context.device.total_bytes),
      less ? format(" (asked for {}: the device has less)", log::bytes(wanted)) : "",
      config::name_of(server.allocator()), limits, config::name_of(policy.free_mode.value),
      policy.free_mode.origin.text());
  if (policy.free_mode.value == config::FreeMode::kDeferred && driver.cuCtxRecordEvent == nullptr) {
    log::warn(
        "CUBFC_FREE=deferred: with this driver (before 12.5) one free in some tens waits for the "
        "GPU, as it cannot record an event for a whole context");
  }
} catch (const std::bad_alloc&) {  // the line is left out
}

}  // namespace cubfc
