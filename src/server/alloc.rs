//! The allocator: memory comes from the server, so that `maxmemory`, `MEMORY USAGE` and defragmentation include it.

use std::alloc::{GlobalAlloc, Layout, System};

use redis_module::raw;

/// The server's allocator; without a server, in tests that link the library, the system's.
pub struct ServerAllocator;

/// What the server's allocator aligns to in every build: one that stores the size before each allocation aligns to no more.
const SERVER_ALIGNMENT: usize = 8;

/// Whether memory of this layout is the server's. The answer never changes for an allocation: the functions are filled in
/// before anything is allocated in a server, and never otherwise.
fn is_the_servers(layout: Layout) -> bool {
    // SAFETY: read-only access to a value that is written once, before any code that allocates runs.
    layout.align() <= SERVER_ALIGNMENT && unsafe { raw::RedisModule_Alloc }.is_some()
}

/// The allocator aligns no further than the size asks for.
fn size(layout: Layout) -> usize {
    layout.pad_to_align().size()
}

// SAFETY: each method passes its contract on to the allocator that owns the memory; the server's functions return
// memory aligned for the padded size, and abort rather than return null.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the server's function takes any size; the system's gets the caller's layout.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(alloc) if is_the_servers(layout) => alloc(size(layout)).cast(),
                _ => System.alloc(layout),
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        unsafe {
            match raw::RedisModule_Calloc {
                Some(calloc) if is_the_servers(layout) => calloc(1, size(layout)).cast(),
                _ => System.alloc_zeroed(layout),
            }
        }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the allocator that the layout chooses, then as now.
        unsafe {
            match raw::RedisModule_Free {
                Some(free) if is_the_servers(layout) => free(ptr.cast()),
                _ => System.dealloc(ptr, layout),
            }
        }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for `dealloc`; the caller guarantees that the new size makes a valid layout with this alignment.
        unsafe {
            match raw::RedisModule_Realloc {
                Some(realloc) if is_the_servers(layout) => {
                    let layout = Layout::from_size_align_unchecked(new_size, layout.align());
                    realloc(ptr.cast(), size(layout)).cast()
                }
                _ => System.realloc(ptr, layout, new_size),
            }
        }
    }
}
