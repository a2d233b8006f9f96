// The NVIDIA driver as `cubfc check` calls it: loaded when the command runs, never linked to.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace cubfc::cli::check {

// what() says what failed, and what to do about it.
struct DriverError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All functions throw DriverError where the driver fails. For one thread.
class Driver {
 public:
  // Loads libcuda.so.1, as a CUDA program would, and calls cuInit().
  Driver();

  int version() const { return version_; }  // 13000 for CUDA 13.0
  int count() const { return count_; }
  std::string name_of(int device) const;
  std::uint64_t total_bytes_of(int device) const;

 private:
  friend class Context;
  template <typename Function>
  Function* find(const char* name) const;
  void must(const char* function, CUresult result) const;

  void* const library_;
  int version_ = 0;
  int count_ = 0;
};

// A device's primary context, retained and current in this thread as long as the object lives.
class Context {
 public:
  Context(const Driver& driver, int device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  std::uint64_t free_bytes() const;
  // 0 when the device has not so much memory.
  CUdeviceptr allocate(std::uint64_t bytes) const;
  void free(CUdeviceptr address) const;
  // fill() and read() return when the work is done. `words`: of four bytes each.
  void fill(CUdeviceptr address, std::uint32_t word, std::uint64_t words) const;
  void read(void* into, CUdeviceptr address, std::uint64_t bytes) const;

 private:
  const Driver& driver_;
  const int device_;
};

}  // namespace cubfc::cli::check
