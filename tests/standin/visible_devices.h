// Which of the machine's devices a process sees: CUDA_VISIBLE_DEVICES. Knows no state of the
// driver.
#pragma once

#include <cuda.h>

#include <string_view>
#include <vector>

namespace standin {

// The identity of the machine's device of this number, whatever the process calls it.
CUuuid UuidOf(int number);

// The numbers of the devices that `list` names, in its order: numbers, or beginnings of
// "GPU-<uuid>" that only one device has. What stands behind the first name that is not valid is not
// seen, as CUDA's guide says; a device that is named again is not valid.
std::vector<int> VisibleDevices(std::string_view list, int devices);

}  // namespace standin
