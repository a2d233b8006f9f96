/* What a program may ask of cubfc, in C. Nothing links to it: look a function up with
 * dlsym(RTLD_DEFAULT, "cubfc_trim"), and do without where it is not found. */
#ifndef CUBFC_H
#define CUBFC_H

#ifdef __cplusplus
extern "C" {
#endif

/* Give back what was preallocated, too. */
#define CUBFC_TRIM_PREALLOCATED 1u

/* Gives memory that the program does not use back to the devices: whole free regions, whole free
 * pages, what pools of cubfc's keep. Memory that waits for work on a device stays.
 * flags: 0 or CUBFC_TRIM_PREALLOCATED. Any thread may call, also while others allocate.
 * Returns the number of bytes. */
unsigned long long cubfc_trim(unsigned flags);
typedef unsigned long long cubfc_trim_function(unsigned flags);

#ifdef __cplusplus
}
#endif

#endif
