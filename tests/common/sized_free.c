/* Valgrind replaces malloc and free, but not jemalloc's sdallocx, which some servers use to free memory of known size. This
 * library for LD_PRELOAD does it. */
#include <stdlib.h>

void sdallocx(void *memory, size_t size, int flags) {
    (void)size;
    (void)flags;
    free(memory);
}
