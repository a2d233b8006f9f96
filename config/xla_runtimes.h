// The libraries by which XLA or TensorFlow use GPUs in a process. The loader and `cubfc check` look
// for them: in a process with one, settings under XLA's and TensorFlow's names are left to that
// runtime (Policy::beside_xla).
#pragma once

#include <array>
#include <string_view>

namespace cubfc::config {

/// Beginnings of file names: JAX's plugin for CUDA, as JAX's wheels and others name it, and
/// TensorFlow's libraries.
inline constexpr std::array kXlaRuntimes = {"xla_cuda_plugin.so", "pjrt_c_api_gpu_plugin.so",
                                            "libtensorflow_framework.so", "libtensorflow_cc.so",
                                            "_pywrap_tensorflow_internal.so"};

/// The entry of kXlaRuntimes that matches the library at this path; nullptr if none does. Static
/// storage; any thread.
constexpr const char* xla_runtime_at(std::string_view path) noexcept {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const char* const known : kXlaRuntimes) {
    if (name.starts_with(known)) {
      return known;
    }
  }
  return nullptr;
}

}  // namespace cubfc::config
