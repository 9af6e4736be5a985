//! What is in an append-only file.

/// The commands in a file, or a part of a file, without an RDB preamble.
pub fn commands(mut file: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut commands = Vec::new();
    while !file.is_empty() {
        let words = (0..number(&mut file, b'*')).map(|_| {
            let length = number(&mut file, b'$');
            let word = &file[..length];
            file = &file[length + 2..];
            word
        });
        commands.push(words.collect());
    }
    commands
}

fn number(file: &mut &[u8], mark: u8) -> usize {
    assert_eq!(file[0], mark);
    let end = file.windows(2).position(|bytes| bytes == b"\r\n").expect("a line");
    let number = std::str::from_utf8(&file[1..end]).expect("digits").parse().expect("a number");
    *file = &file[end + 2..];
    number
}
