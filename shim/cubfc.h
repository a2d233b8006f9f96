/* What a program may ask of cubfc, in C. Nothing links to it: look a function up with
 * dlsym(RTLD_DEFAULT, "cubfc_trim"), and do without where it is not found. */
#ifndef CUBFC_H
#define CUBFC_H

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0". The string stays. */
const char* cubfc_version(void);
typedef const char* cubfc_version_function(void);

/* Sets the hard limit for each device, as CUBFC_MEM_LIMIT does and in its place: "20GiB", "25%",
 * "0=8GiB,1=25%". What a policy file enforces, a container was given, or a group has, holds beside
 * it: the least counts. For a process that is started before its limit is known; to be called
 * before anything calls CUDA. Any thread may call. Returns 0, or what is wrong, and then nothing
 * has changed: EBUSY, CUDA has been called already; EINVAL, this is no limit; ENOTSUP, cubfc is
 * switched off; ENOMEM, the host has no memory. */
int cubfc_limit(const char* limit);
typedef int cubfc_limit_function(const char* limit);

/* Give back what was preallocated, too. */
#define CUBFC_TRIM_PREALLOCATED 1u

/* Gives memory that the program does not use back to the devices: whole free regions, whole free
 * pages, what pools of cubfc's keep. Memory that waits for work on a device stays.
 * flags: 0 or CUBFC_TRIM_PREALLOCATED. Any thread may call, also while others allocate.
 * Returns the number of bytes. */
unsigned long long cubfc_trim(unsigned flags);
typedef unsigned long long cubfc_trim_function(unsigned flags);

/* Writes what has been recorded so far to the file of CUBFC_TRACE. For a process that is about to
 * be killed, or to call _exit: what it recorded since would be lost. Any thread may call, also
 * while others allocate. Returns 1, or 0 where nothing is recorded. */
int cubfc_flush(void);
typedef int cubfc_flush_function(void);

/* What the program has of one device, in bytes: the figures of `cubfc top` and CUBFC_SUMMARY, under
 * their names. Later versions add fields at the end. */
typedef struct cubfc_device_stats {
  unsigned long long struct_bytes; /* set it to sizeof: how much there is room for */
  unsigned long long total_bytes;
  unsigned long long bytes_limit; /* ULLONG_MAX: none */
  unsigned long long bytes_in_use;
  unsigned long long peak_bytes_in_use;
  unsigned long long bytes_waiting; /* of what is in use: freed, and not to be used yet */
  unsigned long long bytes_idle;    /* in the arenas, and in no block */
  unsigned long long largest_free_block_bytes;
  unsigned long long bytes_reserved; /* preallocated, and in no arena yet */
  unsigned long long bytes_taken;    /* all that the device has given */
  unsigned long long peak_bytes_taken;
  unsigned long long num_allocs;
  unsigned long long num_frees;
  unsigned long long num_failures;
  unsigned long long num_refused;  /* failures for lack of memory */
  unsigned long long driver_calls; /* by which arenas took memory and gave it back */
  unsigned long long num_free_waits;
  unsigned long long ns_free_waits;
} cubfc_device_stats;

/* Fills in what there is room for, and leaves in struct_bytes how much that was; what lies behind
 * is set to zero. Any thread may call. Each figure is right by itself; while others allocate, two
 * may be of different moments. device: as cuDeviceGet counts. Returns 1, or 0 when nothing is known
 * of the device, because the program has not used it; then nothing is written. */
int cubfc_stats(int device, cubfc_device_stats* stats);
typedef int cubfc_stats_function(int device, cubfc_device_stats* stats);

/* The same of all devices, and by kind of memory and by caller: one JSON object, in UTF-8, as
 * CUBFC_SUMMARY writes it at exit.
 * text: room for so many bytes, of which the last is a zero; may be NULL when bytes is 0.
 * Returns how long the whole is, without the zero, as snprintf does; 0 when the program has not
 * used CUDA, or the host has no memory. Any thread may call. */
unsigned long long cubfc_dump(char* text, unsigned long long bytes);
typedef unsigned long long cubfc_dump_function(char* text, unsigned long long bytes);

#ifdef __cplusplus
}
#endif

#endif
