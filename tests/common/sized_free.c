/* Valgrind puts its own allocator in place of malloc and free, but does not know of jemalloc's way to free memory whose
 * size is known, which some servers use. Preloaded, this frees it as any other. */
#include <stdlib.h>

void sdallocx(void *memory, size_t size, int flags) {
    (void)size;
    (void)flags;
    free(memory);
}
