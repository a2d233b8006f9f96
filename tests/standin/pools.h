// Memory pools: what each one is, who may reach it, and what it keeps of what is freed. All
// functions want state().mutex held.
#pragma once

#include "state.h"

namespace standin {

// Where memory is, and of what kind.
struct PoolPlace {
  CUmemLocationType location_type = CU_MEM_LOCATION_TYPE_DEVICE;
  int device = -1;  // of a place that is no device's
  CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;
  auto operator<=>(const PoolPlace&) const = default;
};
// cuda.h, cuMemGetMemPool: pinned memory is of a device or of the host, managed memory may prefer
// no place.
CUresult PlaceOf(const CUmemLocation& location, CUmemAllocationType type, PoolPlace& out);

struct Pool {
  CUmemLocationType location_type = CU_MEM_LOCATION_TYPE_DEVICE;
  int device = 0;  // -1 of a pool that is no device's
  CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED;
  bool is_default = false;
  std::size_t most = SIZE_MAX;  // bytes
  cuuint64_t release_threshold = 0;
  std::size_t kept = 0;  // bytes of the device
  cuuint64_t most_used = 0;
  cuuint64_t forgotten = 0;  // bytes that cuMemFree took back, and that count as used all the same
  cuuint64_t most_reserved = 0;
  std::map<CUmemPool_attribute, int> switches = {};
  std::map<int, CUmemAccess_flags> access = {};  // of other devices; empty in a new pool
  int handle_types = 0;                          // by which it can be shared with other processes
  bool imported = false;        // it is another process's: nothing is allocated from it here
  bool decompressible = false;  // made for hardware decompression
  std::uint64_t key = 0;        // the same in all processes that share it

  bool is_of_device() const {
    return location_type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED;
  }
};

Registry<CUmemoryPool, Pool>& pools();
CUresult FindPool(CUmemoryPool handle, std::shared_ptr<Pool>& out);

// As cuMemPoolDestroy does.
void EndPool(CUmemoryPool handle, std::shared_ptr<Pool> pool);
// Of all that programs have made of the device's memory, and of those that were imported.
void EndPoolsOf(int device);

// The pool from which cuMemAllocAsync takes the device's memory.
CUmemoryPool CurrentPoolOf(int ordinal);

cuuint64_t UsedOf(CUmemoryPool handle);

// The pool keeps so many bytes that are nobody's, as far as the device has them; or does no longer.
void Keep(Pool& pool, std::size_t bytes);
void Discard(Pool& pool, std::size_t bytes);

// cuMemFree takes back an allocation of a pool: on some drivers the pool's use does not go down.
void NotePlainFree(const Allocation& allocation);
// The pool keeps the memory of an allocation that was given back, up to its release threshold.
void KeepFreed(const Allocation& allocation);

// What the pool's use has come to.
void NoteUse(CUmemoryPool handle);

// Whether the device may use the pool's memory: it is its own, or cuMemPoolSetAccess gave it
// access.
bool IsReachable(CUmemoryPool pool, int device);

// Whether another device has been given access to the pool at some time.
bool IsShared(CUmemoryPool pool);

}  // namespace standin
