// Taking memory for a context and giving it back. All functions want state().mutex held.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "state.h"

namespace standin {

// Device memory of the context's device, listed as an allocation of `kind`; null when there is
// none.
Allocation* Allocate(Context& context, Kind kind, std::size_t bytes);

// The same of another device's memory, for what a pool of that device gives to this context.
Allocation* AllocateOn(int device, Context& context, Kind kind, std::size_t bytes);

// Gives the memory back and forgets the allocation.
void Release(CUdeviceptr base);

void ReleaseAllOf(const Context& context);
void ReleaseArraysOf(const Context& context);  // of which that is a part

// Whether the address lies where some device has memory, allocated or not.
bool IsDeviceAddress(CUdeviceptr address);

// The case of the behaviour data that a pointer which is no allocation falls under:
// "freed", "host_pointer" or "never_mapped".
const char* CaseOfUnknown(CUdeviceptr address);

// Device memory of another process, by its device's file; 0 where that cannot be had, because the
// process is gone for example. It need not begin at a page.
CUdeviceptr MapOfProcess(pid_t owner, int fd, std::uint64_t offset, std::uint64_t bytes);

// Anonymous memory of the host, which costs nothing before it is written; null when there is none.
void* MapHost(std::size_t bytes);

}  // namespace standin
