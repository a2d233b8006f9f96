/* The functions that cubfc offers to the program, in C. Do not link to cubfc: look a function up
 * with dlsym(RTLD_DEFAULT, "cubfc_trim"). If it is not found, cubfc is not loaded, or is older. */
#ifndef CUBFC_H
#define CUBFC_H

#ifdef __cplusplus
extern "C" {
#endif

/* The version of cubfc, such as "0.1.0". The string stays valid. */
const char* cubfc_version(void);
typedef const char* cubfc_version_function(void);

/* Sets the hard limit for each device, in place of CUBFC_MEM_LIMIT and in the same format: "20GiB",
 * "25%", "0=8GiB,1=25%". Limits that a policy file enforces, that a container was given or that a
 * group has still hold: the lowest one counts. For a process that is started before its limit is
 * known. Must be called before the process first calls CUDA. Any thread may call. Returns 0, or an
 * error, and then nothing has changed: EBUSY, CUDA has been called already; EINVAL, this is no
 * limit; ENOTSUP, cubfc intercepts nothing in this process; ENOMEM, the host has no memory. */
int cubfc_limit(const char* limit);
typedef int cubfc_limit_function(const char* limit);

/* Give back what was preallocated, too. */
#define CUBFC_TRIM_PREALLOCATED 1u

/* Gives memory that the program does not use back to the devices: whole free regions, whole free
 * pages, what pools of cubfc's keep. Freed memory that work on a device may still use stays.
 * flags: 0 or CUBFC_TRIM_PREALLOCATED. Any thread may call, also while others allocate.
 * Returns the number of bytes that were given back. */
unsigned long long cubfc_trim(unsigned flags);
typedef unsigned long long cubfc_trim_function(unsigned flags);

/* cubfc_sleep() puts the program to sleep, cubfc_wake() wakes it, as `cubfc sleep` and `cubfc wake`
 * do (docs/sleep.md). Must not be called from inside a call of the driver's, such as a callback of
 * CUPTI's; any thread may call otherwise. text: room for so many bytes, the terminating zero
 * included, for a line that says what has come of it, or why not; may be NULL when bytes is 0.
 * Returns 1 if the program is asleep, or awake, and 0 if it could not be done: then the line says
 * why. */
int cubfc_sleep(char* text, unsigned long long bytes);
typedef int cubfc_sleep_function(char* text, unsigned long long bytes);
int cubfc_wake(char* text, unsigned long long bytes);
typedef int cubfc_wake_function(char* text, unsigned long long bytes);

/* Writes what has been recorded so far to the file of CUBFC_TRACE. For a process that is about to
 * be killed, or to call _exit: records that are not in the file then are lost. Any thread may call,
 * also while others allocate. Returns 1, or 0 where nothing is recorded. */
int cubfc_flush(void);
typedef int cubfc_flush_function(void);

/* What the program has of one device, in bytes: the figures of `cubfc top` and CUBFC_SUMMARY, under
 * their names. Later versions add fields at the end. */
typedef struct cubfc_device_stats {
  unsigned long long struct_bytes; /* set it to the sizeof of your struct before the call */
  unsigned long long total_bytes;
  unsigned long long bytes_limit; /* ULLONG_MAX: none */
  unsigned long long bytes_in_use;
  unsigned long long peak_bytes_in_use;
  unsigned long long bytes_waiting; /* of what is in use: freed, but work may use it still */
  unsigned long long bytes_idle;    /* in the arenas, but in no block */
  unsigned long long largest_free_block_bytes;
  unsigned long long bytes_reserved; /* preallocated, but in no arena yet */
  unsigned long long bytes_taken;    /* all that the process has of the device */
  unsigned long long peak_bytes_taken;
  unsigned long long num_allocs;
  unsigned long long num_frees;
  unsigned long long num_failures;
  unsigned long long num_refused;  /* failures for lack of memory */
  unsigned long long driver_calls; /* that took memory for arenas or gave it back */
  unsigned long long num_free_waits;
  unsigned long long ns_free_waits;
  unsigned long long bytes_asleep; /* on the host while the program sleeps; not taken */
} cubfc_device_stats;

/* Fills in the fields that stats->struct_bytes leaves room for, and sets struct_bytes to the number
 * of bytes filled in; room beyond them is set to zero. Any thread may call. Each figure is right by
 * itself; while others allocate, two may be of different moments. device: the ordinal that
 * cuDeviceGet takes. Returns 1, or 0 when nothing is known of the device, because the program has
 * not used it; then nothing is written. */
int cubfc_stats(int device, cubfc_device_stats* stats);
typedef int cubfc_stats_function(int device, cubfc_device_stats* stats);

/* The figures of all devices, also by kind of memory and by caller: one JSON object, in UTF-8, as
 * CUBFC_SUMMARY writes it at exit.
 * text: room for so many bytes, the terminating zero included; may be NULL when bytes is 0.
 * Returns the length of the whole object, without the zero, as snprintf does; 0 when the program
 * has not used CUDA, or the host has no memory. Any thread may call. */
unsigned long long cubfc_dump(char* text, unsigned long long bytes);
typedef unsigned long long cubfc_dump_function(char* text, unsigned long long bytes);

#ifdef __cplusplus
}
#endif

#endif
