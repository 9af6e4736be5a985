//! The full chunks of a log.

use std::collections::VecDeque;

use super::chunk::Chunk;

/// Chunks, oldest first, and the size of their buffers, so that the size of a long log is known without a walk.
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

    /// Removes the chunks from `number` on, and returns the first of them.
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

    /// Gives back memory that the remaining chunks do not need.
    pub(super) fn shrink(&mut self) {
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
    }

    /// Bytes on the heap, including its own.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.chunks.capacity() * size_of::<Chunk>() + self.chunk_bytes
    }

    /// The chunks, to move them in memory.
    pub fn chunks_mut(&mut self) -> &mut VecDeque<Chunk> {
        &mut self.chunks
    }
}

/// A copy has no spare capacity.
impl Clone for Queue {
    fn clone(&self) -> Self {
        let chunks = self.chunks.clone();
        let chunk_bytes = chunks.iter().map(Chunk::heap_bytes).sum();
        Self { chunks, chunk_bytes }
    }
}
