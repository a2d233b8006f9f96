// The main function of every unit test under Catch2 2, which has no library that brings one.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
