// The libraries by which XLA or TensorFlow use GPUs in a process, as the loader and `cubfc check`
// recognise them: there what is set under their names is that runtime's own (Policy::beside_xla).
#pragma once

#include <array>
#include <string_view>

namespace cubfc::config {

/// JAX's plugin for CUDA, as its wheels and others' name it; TensorFlow's libraries. Beginnings of
/// file names.
inline constexpr std::array kXlaRuntimes = {"xla_cuda_plugin.so", "pjrt_c_api_gpu_plugin.so",
                                            "libtensorflow_framework.so", "libtensorflow_cc.so",
                                            "_pywrap_tensorflow_internal.so"};

/// The one that a library at this path is; nullptr if it is none. Static storage; any thread.
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
