/* A test clock for LD_PRELOAD: it replaces the real-time clocks of a server. The test writes a file with one integer:
 * twice the microseconds, plus one for a fixed time, or else for an offset from the real time. Other clocks stay real.
 * */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *test_time;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("TEST_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, 8, PROT_READ, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) test_time = memory;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (!test_time || result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
    int64_t word = *test_time, micros = word >> 1;
    if ((word & 1) == 0) micros += (int64_t)time->tv_sec * 1000000 + time->tv_nsec / 1000;
    time->tv_sec = micros / 1000000;
    time->tv_nsec = micros % 1000000 * 1000;
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *time) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (time) *time = now.tv_sec;
    return now.tv_sec;
}

/* Valkey 8.1 and later load modules with RTLD_DEEPBIND, by which a module would use libc's clock. */
void *dlopen(const char *file, int mode) {
    void *(*next)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    return next(file, mode & ~RTLD_DEEPBIND);
}

/* Valkey 9.1 and later read the clock once a millisecond, and in between the processor's counter if they know the
 * processor, so its description is hidden. */
static FILE *open_unless_processors(const char *function, const char *path, const char *mode) {
    FILE *(*next)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, function);
    return strcmp(path, "/proc/cpuinfo") == 0 ? NULL : next(path, mode);
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    return open_unless_processors("fopen", path, mode);
}

FILE *fopen64(const char *restrict path, const char *restrict mode) {
    return open_unless_processors("fopen64", path, mode);
}
