// What a device is and can do, in numbers.
#pragma once

#include "state.h"

namespace standin {

// 0 where the driver knows nothing of the attribute.
int AttributeOf(const Device& device, CUdevice_attribute attribute);

}  // namespace standin
