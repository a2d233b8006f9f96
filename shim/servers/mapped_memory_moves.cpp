// The part of MappedMemory that takes pages away from under the arena's blocks and puts them back
// (device/movable_pages.h).
#include <algorithm>
#include <utility>

#include "shim/driver/relaxed_capture.h"
#include "shim/patience.h"
#include "shim/servers/mapped_memory.h"

namespace cubfc {

MappedMemory::ArenaCall::ArenaCall(MappedMemory& memory) : memory_(memory) {
  const std::lock_guard lock(memory_.mutex_);
  allowed_ = !memory_.is_held_;
  memory_.arena_calls_ += allowed_ ? 1 : 0;
}

MappedMemory::ArenaCall::~ArenaCall() {
  if (allowed_) {
    const std::lock_guard lock(memory_.mutex_);
    if (--memory_.arena_calls_ == 0) {
      memory_.no_arena_call_.notify_all();
    }
  }
}

bool MappedMemory::hold() noexcept {
  std::unique_lock lock(mutex_);
  is_held_ = true;
  is_held_ =
      no_arena_call_.wait_for(lock, patience::kForDriverCall, [this] { return arena_calls_ == 0; });
  return is_held_;
}

void MappedMemory::let_go() noexcept {
  const std::lock_guard lock(mutex_);
  is_held_ = false;
}

std::vector<arena::Address> MappedMemory::mapped_pages() const {
  std::vector<arena::Address> addresses;
  const std::lock_guard lock(mutex_);
  if (holdings_ != nullptr) {
    addresses.reserve(holdings_->pages.size());
    for (const auto& [address, page] : holdings_->pages) {
      addresses.push_back(address);
    }
  }
  return addresses;
}

std::size_t MappedMemory::count_with_memory(const Pages& pages) noexcept {
  return static_cast<std::size_t>(std::count_if(
      pages.begin(), pages.end(), [](const auto& page) { return page.second.handle != 0; }));
}

// Takes `count` pages that lie side by side out of a list, which the lock guards.
MappedMemory::Pages MappedMemory::take_out(Pages& from, arena::Address first,
                                           std::size_t count) noexcept {
  Pages taken;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i) {
    taken.insert(from.extract(first + i * page_bytes_));
  }
  return taken;
}

CUresult MappedMemory::take_away(arena::Address first, std::size_t count) noexcept {
  const RelaxedCapture relaxed(driver_);
  const std::shared_ptr<Holdings> of_context = holdings();
  if (of_context == nullptr) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  // As in unmap(), the pages leave `pages` first.
  Pages going = take_out(of_context->pages, first, count);
  const CUresult result = driver_.cuMemUnmap(first, count * page_bytes_);
  device_.use.driver_called();
  if (result != CUDA_SUCCESS) {
    const std::lock_guard lock(mutex_);
    of_context->pages.merge(going);
    return result;
  }
  std::uint64_t given_back = 0;
  for (auto& [address, page] : going) {
    page.is_mapped = false;
    given_back += release(page);
  }
  keep_away(*of_context, going);
  device_.limit.budget.release(given_back);
  return CUDA_SUCCESS;
}

// Takes all pages out of `away`, so that the caller can call the driver for them under no lock. The
// caller then passes them to keep_away().
MappedMemory::Pages MappedMemory::take_those_away(Holdings& of_context) noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(of_context.away, {});
}

// Puts the pages into `away`. If the context has ended meanwhile, claims them as leave_behind() has
// claimed all others.
void MappedMemory::keep_away(Holdings& of_context, Pages& pages) noexcept {
  const std::lock_guard lock(mutex_);
  if (holdings_.get() != &of_context) {
    of_context.left_behind_bytes += count_with_memory(pages) * page_bytes_;
    of_context.budget.force(pages.size() * page_bytes_);
  }
  of_context.away.merge(pages);
}

CUresult MappedMemory::get_memory() noexcept {
  const RelaxedCapture relaxed(driver_);
  const std::shared_ptr<Holdings> of_context = holdings();
  if (of_context == nullptr) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  if (!device_.limit.pools.refresh()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  Pages away = take_those_away(*of_context);
  const std::size_t lacking = away.size() - count_with_memory(away);
  CUresult result =
      device_.limit.budget.take(lacking * page_bytes_) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  std::size_t claimed = result == CUDA_SUCCESS ? lacking : 0;
  for (auto page = away.begin(); page != away.end() && result == CUDA_SUCCESS; ++page) {
    if (Handle handle = 0; page->second.handle == 0) {
      device_.use.driver_called();
      result = driver_.cuMemCreate(&handle, page_bytes_, &page_properties_, 0);
      page->second.handle = result == CUDA_SUCCESS ? handle : 0;
      claimed -= result == CUDA_SUCCESS ? 1 : 0;
    }
  }
  keep_away(*of_context, away);
  if (result != CUDA_SUCCESS) {
    device_.limit.budget.give(claimed * page_bytes_);
    drop_memory();
  }
  return result;
}

// Gives the memory of an unmapped page back to the driver. Returns the bytes; 0 if there is none,
// or if the driver does not take it.
std::uint64_t MappedMemory::release(Page& page) noexcept {
  if (page.handle == 0) {
    return 0;
  }
  device_.use.driver_called();
  if (driver_.cuMemRelease(page.handle) != CUDA_SUCCESS) {
    return 0;
  }
  page.handle = 0;
  return page_bytes_;
}

void MappedMemory::drop_memory() noexcept {
  const RelaxedCapture relaxed(driver_);
  const std::shared_ptr<Holdings> of_context = holdings();
  if (of_context == nullptr) {
    return;
  }
  std::uint64_t given_back = 0;
  Pages away = take_those_away(*of_context);
  for (auto& [address, page] : away) {
    if (page.is_mapped) {
      device_.use.driver_called();
      page.is_mapped = driver_.cuMemUnmap(address, page_bytes_) != CUDA_SUCCESS;
    }
    given_back += page.is_mapped ? 0 : release(page);
  }
  keep_away(*of_context, away);
  device_.limit.budget.release(given_back);
}

void MappedMemory::give_up_while(const std::function<void()>& what,
                                 const std::function<bool(arena::Address)>& may_go) noexcept {
  const auto set = [this](const std::function<bool(arena::Address)>* to) {
    const std::lock_guard lock(mutex_);
    may_go_ = to;
  };
  set(&may_go);
  what();
  set(nullptr);
}

bool MappedMemory::is_away(arena::Address address) const noexcept {
  const std::lock_guard lock(mutex_);
  return holdings_ != nullptr && holdings_->away.contains(address);
}

// Called instead of unmap() while the pages are held: forgets pages that are away, all of the range
// or none. The caller, the arena, then gives up its claim on the limit for them. For pages without
// memory nothing is claimed, so their bytes are claimed first. Pages that have kept their memory
// become spare.
bool MappedMemory::give_up(arena::Address base, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (may_go_ == nullptr || holdings_ == nullptr) {
    return false;
  }
  Pages& away = holdings_->away;
  for (arena::Address page = base; page < base + bytes; page += page_bytes_) {
    const auto found = away.find(page);
    if (found == away.end() || found->second.is_mapped || !(*may_go_)(page)) {
      return false;
    }
  }
  std::uint64_t unclaimed = 0;
  for (arena::Address page = base; page < base + bytes; page += page_bytes_) {
    Pages::node_type node = away.extract(page);
    if (node.mapped().handle == 0) {
      unclaimed += page_bytes_;
    } else {
      holdings_->spare.insert(std::move(node));
    }
  }
  device_.limit.budget.force(unclaimed);
  return true;
}

CUresult MappedMemory::put_back(arena::Address first, std::size_t count) noexcept {
  const RelaxedCapture relaxed(driver_);
  const std::shared_ptr<Holdings> of_context = holdings();
  if (of_context == nullptr) {
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  Pages coming = take_out(of_context->away, first, count);
  CUresult result = CUDA_SUCCESS;
  for (auto& [address, page] : coming) {
    if (!page.is_mapped) {  // else an earlier try has mapped it, and failed after that
      device_.use.driver_called();
      result = driver_.cuMemMap(address, page_bytes_, 0, page.handle, 0);
      page.is_mapped = result == CUDA_SUCCESS;
    }
    if (result != CUDA_SUCCESS) {
      break;
    }
  }
  if (result == CUDA_SUCCESS) {
    result = enter(first, count * page_bytes_, coming, of_context.get());
  }
  keep_away(*of_context, coming);  // none after a success
  return result;
}

}  // namespace cubfc
