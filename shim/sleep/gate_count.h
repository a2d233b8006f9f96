// How many gates there are of each kind (gates.h), for C++ and for the assembler.
#pragma once

#define CUBFC_NARROW_GATES 352
#define CUBFC_WIDE_GATES 32
