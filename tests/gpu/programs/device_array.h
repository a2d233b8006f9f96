// An array on the device for the programs of this folder, and how they print what they computed.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <vector>

// Whatever library the status is of: 0 is success in all of them.
template <typename Status>
void must(Status status) {
  if (static_cast<int>(status) != 0) {
    std::fprintf(stderr, "a call failed with %d\n", static_cast<int>(status));
    std::exit(1);
  }
}

// Ends the program where there is none.
inline void need_device() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::puts("lacking: a CUDA device");
    std::exit(77);
  }
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    must(cudaMalloc(&data_, count * sizeof(T) + 1));  // never nothing
    must(cudaMemset(data_, 0, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    must(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { must(cudaFree(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    must(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Between 0 and 1 (integers: any), the same in every run.
template <typename T>
std::vector<T> pseudo_random(std::size_t count, std::uint32_t seed) {
  std::vector<T> values(count);
  for (T& value : values) {
    seed = seed * 1664525 + 1013904223;
    if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(seed >> 8) / static_cast<T>(1 << 24);
    } else {
      value = static_cast<T>(seed >> 8);
    }
  }
  return values;
}

// The digest of all bytes (FNV-1a), and numbers for when the last bits differ: the mean, and the
// Euclidean norm of each eighth.
template <typename T>
void print(const std::string& name, const std::vector<T>& values) {
  std::uint64_t digest = 14695981039346656037u;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(values.data());
  for (std::size_t i = 0; i < values.size() * sizeof(T); ++i) {
    digest = (digest ^ bytes[i]) * 1099511628211u;
  }
  double sum = 0;
  std::vector<double> squares(8);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = static_cast<double>(values[i]);
    sum += value;
    squares[i * squares.size() / values.size()] += value * value;
  }
  std::printf("%s: %016llx mean %.9g norms", name.c_str(), static_cast<unsigned long long>(digest),
              values.empty() ? 0.0 : sum / static_cast<double>(values.size()));
  for (const double square : squares) {
    std::printf(" %.9g", std::sqrt(square));
  }
  std::printf("\n");
}
