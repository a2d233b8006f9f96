// How many bytes of each device are in use, by this process alone or, when processes share devices,
// by all of them. Knows nothing of addresses.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace standin {

class Usage {
 public:
  virtual ~Usage() = default;
  // Takes `bytes` if they and what all processes use are at most `capacity`. Thread safe.
  virtual bool Take(int device, std::size_t bytes, std::size_t capacity) = 0;
  virtual void Give(int device, std::size_t bytes) = 0;
  virtual std::size_t Used(int device) = 0;
  // The most that was in use at one time.
  virtual std::size_t Most(int device) = 0;
};

std::unique_ptr<Usage> PrivateUsage();

// Usage in a file that processes map. Ends the process with a line on stderr if it cannot be used.
std::unique_ptr<Usage> SharedUsage(const std::string& path);

}  // namespace standin
