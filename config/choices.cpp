#include "config/choices.h"

namespace cubfc::config {

std::string_view name_of(Allocator allocator) noexcept {
  switch (allocator) {
    case Allocator::kBfc:
      return "bfc";
    case Allocator::kVmm:
      return "vmm";
    case Allocator::kCudaAsync:
      return "cuda_async";
    case Allocator::kPlatform:
      return "platform";
  }
  return "?";
}

std::string_view name_of(Preallocate preallocate) noexcept {
  switch (preallocate) {
    case Preallocate::kSoft:
      return "soft";
    case Preallocate::kNo:
      return "false";
    case Preallocate::kYes:
      return "true";
    case Preallocate::kWhole:
      return "whole";
  }
  return "unknown";
}

std::string_view name_of(FreeMode mode) noexcept {
  return mode == FreeMode::kSync ? "sync" : "deferred";
}

std::string_view name_of(StreamOrdered by) noexcept {
  return by == StreamOrdered::kDriver ? "driver" : "arena";
}

std::string_view name_of(Ipc ipc) noexcept {
  return ipc == Ipc::kCubfc ? "cubfc" : "driver";
}

std::string_view name_of(LimitCounts counts) noexcept {
  return counts == LimitCounts::kAll ? "all" : "arena";
}

std::string_view name_of(Nvml nvml) noexcept {
  return nvml == Nvml::kAuto ? "auto" : nvml == Nvml::kYes ? "true" : "false";
}

std::string_view name_of(FractionOf of) noexcept {
  return of == FractionOf::kFree ? "free" : "total";
}

std::string_view name_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kTrace:
      return "trace";
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
    case LogLevel::kCritical:
      return "critical";
    case LogLevel::kOff:
      return "off";
  }
  return "?";
}

}  // namespace cubfc::config
