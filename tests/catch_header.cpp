// Catch2's header is precompiled for this program, and used by those of the tests.
int main() {}
