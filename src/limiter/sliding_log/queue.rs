//! The chunks of a log that take no more entries.

use std::collections::VecDeque;

use super::chunk::Chunk;

/// Chunks, oldest first, and how many bytes their entries have room for: so that the size of a long log is known without
/// a walk over it.
#[derive(Debug, Default)]
pub struct Queue {
    chunks: VecDeque<Chunk>,
    chunk_bytes: usize,
}

impl Queue {
    pub(super) const fn chunks(&self) -> &VecDeque<Chunk> {
        &self.chunks
    }

    pub(super) fn push(&mut self, chunk: Chunk) {
        self.chunk_bytes += chunk.heap_bytes();
        self.chunks.push_back(chunk);
    }

    pub(super) fn drop_oldest(&mut self) {
        self.chunk_bytes -= self.chunks.pop_front().map_or(0, |chunk| chunk.heap_bytes());
    }

    /// Removes the chunks from the one with this number on, and returns the first of them.
    pub(super) fn cut_at(&mut self, number: usize) -> Option<Chunk> {
        self.chunk_bytes -= self.chunks.range(number..).map(Chunk::heap_bytes).sum::<usize>();
        self.chunks.drain(number..).next()
    }

    /// Changes the oldest chunk.
    pub(super) fn change_oldest(&mut self, change: impl FnOnce(&mut Chunk)) {
        if let Some(oldest) = self.chunks.front_mut() {
            self.chunk_bytes -= oldest.heap_bytes();
            change(oldest);
            self.chunk_bytes += oldest.heap_bytes();
        }
    }

    /// Gives memory back that is no longer needed for as many chunks as there are.
    pub(super) fn shrink(&mut self) {
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }

    /// Bytes on the heap, its own included.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.chunks.capacity() * size_of::<Chunk>() + self.chunk_bytes
    }

    /// The chunks, for whoever wants to move them to a better place.
    pub fn chunks_mut(&mut self) -> &mut VecDeque<Chunk> {
        &mut self.chunks
    }
}

/// The copies have room for no more than they hold.
impl Clone for Queue {
    fn clone(&self) -> Self {
        let chunks = self.chunks.clone();
        let chunk_bytes = chunks.iter().map(Chunk::heap_bytes).sum();
        Self { chunks, chunk_bytes }
    }
}
