// The memory of an arena under CUBFC_ALLOCATOR=vmm: pages of physical memory, mapped at addresses
// that cubfc has reserved.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "shim/device/context.h"

namespace cubfc {

// All pages are of one device. Thread-safe; its lock is never held across a driver call.
class MappedMemory : public RegionSource, private MovablePages {
 public:
  MappedMemory(const DriverFunctions& driver, Device& device, std::uint64_t page_bytes)
      : driver_(driver),
        device_(device),
        page_bytes_(page_bytes),
        page_properties_(page_properties(driver, device.handle)) {}

  // Tries, with one page, each driver call that this class makes for a page. Returns the driver's
  // answer to the first call that fails. If the device is full, that counts as CUDA_SUCCESS.
  static CUresult try_page(const DriverFunctions& driver, CUdevice device,
                           std::uint64_t page_bytes) noexcept;
  // The page size in bytes that suits the size of the device, or of the limit if that is lower. 0
  // if the device cannot map memory, or if arenas consist of managed memory.
  static std::uint64_t page_bytes_for(const DriverFunctions& driver, const Device& device);

  bool release_waits() const noexcept override { return false; }
  bool is_shareable() const noexcept override { return false; }
  std::uint64_t page_bytes() const noexcept override { return page_bytes_; }
  Region reserve(std::uint64_t bytes) noexcept override;
  Region map(arena::Address base, std::uint64_t bytes) noexcept override;
  bool unmap(arena::Address base, std::uint64_t bytes) noexcept override;
  void drop_spare() noexcept override;
  std::uint64_t spare_bytes() const noexcept override;
  std::uint64_t bytes_ahead() const noexcept override { return device_.preallocation.bytes(); }
  // Not called, because this source has pages (arena/memory_source.h).
  Region obtain(std::uint64_t bytes) noexcept override;
  void release(std::span<const Extent> regions) noexcept override;

  MovablePages* movable() noexcept override { return this; }

  std::unique_ptr<Leftovers> leave_behind() noexcept override;
  // Called when `peer` has been added to the device's peers: gives it access to the mapped pages.
  void give_access(CUdevice peer) noexcept;

 private:
  using Handle = CUmemGenericAllocationHandle;
  struct Page {
    Handle handle = 0;       // its memory; 0: none
    bool is_mapped = false;  // at the page's address
  };
  using Pages = std::map<arena::Address, Page>;

  // All that must be given back to the driver, which the destructor does.
  struct Holdings {
    explicit Holdings(const MappedMemory& memory)
        : driver(memory.driver_),
          budget(memory.device_.limit.budget),
          page_bytes(memory.page_bytes_) {}
    ~Holdings();
    Holdings(const Holdings&) = delete;
    Holdings& operator=(const Holdings&) = delete;

    const DriverFunctions& driver;
    arena::Budget& budget;
    const std::uint64_t page_bytes;
    std::uint64_t left_behind_bytes = 0;  // claimed in the budget since the context ended
    std::map<arena::Address, std::uint64_t> ranges;  // reserved addresses: start and bytes
    Pages pages;                                     // mapped pages
    // Pages that were taken away. Those with memory are claimed in the budget; those without are
    // not, though the arena counts them.
    Pages away;
    std::multimap<arena::Address, Page> spare;  // not mapped now, by their last address
  };

  // A call of the arena's for pages is under way. Refused while the pages are held.
  class ArenaCall {
   public:
    explicit ArenaCall(MappedMemory& memory);
    ~ArenaCall();
    ArenaCall(const ArenaCall&) = delete;
    ArenaCall& operator=(const ArenaCall&) = delete;
    bool allowed() const { return allowed_; }

   private:
    MappedMemory& memory_;
    bool allowed_;
  };

  bool hold() noexcept override;
  void let_go() noexcept override;
  std::uint64_t page_size() const noexcept override { return page_bytes_; }
  std::vector<arena::Address> mapped_pages() const override;
  CUresult take_away(arena::Address first, std::size_t count) noexcept override;
  CUresult get_memory() noexcept override;
  void drop_memory() noexcept override;
  void give_up_while(const std::function<void()>& what,
                     const std::function<bool(arena::Address)>& may_go) noexcept override;
  bool is_away(arena::Address address) const noexcept override;
  bool give_up(arena::Address base, std::uint64_t bytes) noexcept;
  CUresult put_back(arena::Address first, std::size_t count) noexcept override;
  static std::size_t count_with_memory(const Pages& pages) noexcept;
  Pages take_out(Pages& from, arena::Address first, std::size_t count) noexcept;
  std::uint64_t release(Page& page) noexcept;
  Pages take_those_away(Holdings& of_context) noexcept;
  void keep_away(Holdings& of_context, Pages& pages) noexcept;

  std::shared_ptr<Holdings> holdings();
  CUresult create(Handle& handle);
  CUresult make(arena::Address base, std::uint64_t bytes, Pages& made);
  void keep_as_spare(Pages& made, const Holdings* of_context);
  CUresult map_pages(arena::Address base, std::uint64_t bytes, const Holdings* of_context,
                     bool& host_has_none) noexcept;
  enum class Own : bool { kNo, kYes };
  CUresult set_access(arena::Address base, std::uint64_t bytes, Own own, PeerSet peers);
  CUresult enter(arena::Address base, std::uint64_t bytes, Pages& made, const Holdings* of_context);
  static CUmemAllocationProp page_properties(const DriverFunctions& driver,
                                             CUdevice device) noexcept;
  static void release_all(const DriverFunctions& driver, const Pages& pages,
                          std::uint64_t page_bytes);

  const DriverFunctions& driver_;
  Device& device_;
  const std::uint64_t page_bytes_;
  // The properties of every page; the driver is asked for them once.
  const CUmemAllocationProp page_properties_;

  mutable std::mutex mutex_;              // guards all below
  std::shared_ptr<Holdings> holdings_;    // nullptr while nothing is reserved
  std::unique_ptr<Leftovers> leftovers_;  // for leave_behind()
  bool is_held_ = false;                  // by hold()
  const std::function<bool(arena::Address)>* may_go_ = nullptr;  // in give_up_while()
  int arena_calls_ = 0;                                          // ArenaCalls that are allowed
  std::condition_variable no_arena_call_;
};

}  // namespace cubfc
