// Physical memory mapped into a reserved range of addresses, for the cases and timings about it.
#pragma once

#include "cases.h"

namespace probe {

/// The properties of device memory, exportable as a file descriptor or not at all.
CUmemAllocationProp device_memory(const Session& s);

/// The smallest unit of mapping; 0 when the driver does not say.
std::size_t granularity_of(const Session& s);

/// A mapped range of `bytes` (a multiple of the granularity), taken apart with the object. `error`
/// is the first error, and no address there then.
class MappedRange {
 public:
  MappedRange(const Session& session, std::size_t bytes);
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;
  ~MappedRange();

  [[nodiscard]] CUdeviceptr address() const { return mapped_ ? address_ : 0; }
  [[nodiscard]] CUresult error() const { return error_; }

 private:
  const Driver& cu_;
  std::size_t bytes_;
  CUdeviceptr address_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  bool created_ = false;
  bool mapped_ = false;
  CUresult error_ = CUDA_SUCCESS;
};

}  // namespace probe
