// How many gates there are (gates.h), for C++ and for the assembler.
#pragma once

#define CUBFC_GATES 384
