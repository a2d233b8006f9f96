// What vk_mem_alloc.h defines, once.
#define VMA_IMPLEMENTATION
#include "vma.h"
