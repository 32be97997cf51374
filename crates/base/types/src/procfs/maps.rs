//! `/proc/PID/maps`: what is mapped where?

/// One line of `/proc/PID/maps`: a mapped range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// May be read.
    pub readable: bool,
    /// May be written.
    pub writable: bool,
    /// May be executed.
    pub executable: bool,
    /// Changes reach the file and other processes.
    pub shared: bool,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Device of the file: major and minor number.
    pub device: (u32, u32),
    /// Number of the file on its device; 0: anonymous.
    pub inode: u64,
    /// Path, `[stack]`, `[vdso]`, ..., or empty. Without the kernel's " (deleted)".
    pub path: String,
    /// The file's name has been removed or replaced since it was mapped: the file under `path`, if any, is another.
    pub deleted: bool,
}

impl Mapping {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// True if it is backed by a file (and is not a name in brackets).
    pub fn is_file(&self) -> bool {
        self.inode != 0 && !self.path.is_empty()
    }
}

/// A line of a map that is not a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a mapping: `{line}`")]
pub struct NoMapping {
    /// The line, with what is no text replaced.
    pub line: String,
}

/// Reads the text of a map.
///
/// # Errors
/// The first line that is not a mapping.
pub fn parse_maps(bytes: &[u8]) -> Result<Vec<Mapping>, NoMapping> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| parse_line(line).ok_or_else(|| NoMapping { line: String::from_utf8_lossy(line).into_owned() }))
        .collect()
}

const DELETED: &[u8] = b" (deleted)";

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let (start, end) = (number(&mut rest, 16, b'-')?, number(&mut rest, 16, b' ')?);
    let ([readable, writable, executable, shared, b' '], after) = rest.split_first_chunk()? else { return None };
    rest = after;
    let offset = number(&mut rest, 16, b' ')?;
    let device = (number(&mut rest, 16, b':')?.try_into().ok()?, number(&mut rest, 16, b' ')?.try_into().ok()?);
    let inode = number(&mut rest, 10, b' ')?;
    let name = rest.trim_ascii_start();
    let (path, deleted) = match name.contains(&b'\\') {
        true => path_of_mapping(&unescape(name)),
        false => path_of_mapping(name),
    };
    Some(Mapping {
        start,
        end,
        readable: *readable == b'r',
        writable: *writable == b'w',
        executable: *executable == b'x',
        shared: *shared == b's',
        offset,
        device,
        inode,
        path,
        deleted,
    })
}

/// The path of a mapping by the name that the kernel gives it, and whether no file has that name any more.
pub fn path_of_mapping(name: &[u8]) -> (String, bool) {
    let path = name.strip_suffix(DELETED);
    (String::from_utf8_lossy(path.unwrap_or(name)).into_owned(), path.is_some())
}

/// The number that `rest` begins with, of which the rest behind `end` is left; the line may end there, too.
fn number(rest: &mut &[u8], radix: u32, end: u8) -> Option<u64> {
    let text = rest.trim_ascii_start();
    let length = text.iter().position(|byte| *byte == end).unwrap_or(text.len());
    let digit = |value: u64, byte: &u8| {
        let digit = char::from(*byte).to_digit(radix)?;
        value.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    };
    let value = text[..length].iter().try_fold(0, digit)?;
    *rest = &text[(length + 1).min(text.len())..];
    (length > 0).then_some(value)
}

/// The kernel writes a newline in a name as `\012` and nothing else specially.
fn unescape(name: &[u8]) -> Vec<u8> {
    const NEWLINE: &[u8] = b"\\012";
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(NEWLINE) {
            Some(behind) => {
                plain.push(b'\n');
                rest = behind;
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(line: &str) -> Option<Mapping> {
        parse_maps(line.as_bytes()).ok()?.into_iter().next()
    }

    #[test]
    fn names_are_read() {
        let head = "7f00-8f00 r-xp 00001000 fe:0a 77 ";
        #[rustfmt::skip]
        let cases = [
            ("library", "                  /usr/lib/libmpi.so.40", "/usr/lib/libmpi.so.40", false),
            ("space", " /a b/c d", "/a b/c d", false),
            ("deleted", " /a/b (deleted)", "/a/b", true),
            ("deleted_in_the_middle", " /a (deleted)/b", "/a (deleted)/b", false),
            ("heap", " [heap]", "[heap]", false),
            ("anonymous", "", "", false),
            ("newline", " /a\\012b", "/a\nb", false),
            ("memfd", " /memfd:trimtab (deleted)", "/memfd:trimtab", true),
        ];
        for (case, name, path, deleted) in cases {
            let mapping = one(&format!("{head}{name}")).unwrap_or_else(|| panic!("{case}"));
            assert_eq!(mapping.path, path, "{case}");
            assert_eq!(mapping.deleted, deleted, "{case}");
        }
    }

    #[test]
    fn numbers_are_read() {
        let mapping = one("7f1e04000000-7f1e04021000 rw-s 0000a000 fe:1f 10010746 /x").expect("a mapping");
        assert_eq!((mapping.start, mapping.end), (0x7f1e_0400_0000, 0x7f1e_0402_1000));
        assert_eq!(
            (mapping.length(), mapping.offset, mapping.device, mapping.inode),
            (0x21000, 0xa000, (0xfe, 0x1f), 10_010_746)
        );
        let Mapping { readable, writable, executable, shared, .. } = mapping;
        assert_eq!((readable, writable, executable, shared), (true, true, false, true));
        assert!(mapping.is_file());
    }

    #[test]
    fn a_wrong_line_is_named() {
        let text = b"1000-2000 r--p 0 0:0 0 \nnonsense\n";
        assert_eq!(parse_maps(text), Err(NoMapping { line: "nonsense".to_owned() }));
        for line in
            ["1000 r--p 0 0:0 0", "1000-2000 r-p 0 0:0 0", "g-h r--p 0 0:0 0", "1-2 r--p 0 0 0", "1-2 r--p 0 0:0"]
        {
            assert!(parse_maps(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn our_own_map_is_read() {
        let text = std::fs::read("/proc/self/maps").expect("own map");
        let mappings = parse_maps(&text).expect("a map");
        let here = our_own_map_is_read as fn() as usize as u64;
        let own = mappings.iter().find(|mapping| mapping.start <= here && here < mapping.end).expect("own code");
        assert!(own.executable && own.is_file());
        assert_eq!(Some(own.path.as_str()), std::env::current_exe().expect("own path").to_str());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_maps(&bytes);
        }

        #[test]
        fn any_damage_is_survived(at in 0usize..70, byte in any::<u8>()) {
            let mut line = b"7f1e04000000-7f1e04021000 rw-s 0000a000 fe:1f 10010746 /x (deleted)".to_vec();
            if let Some(place) = line.get_mut(at) {
                *place = byte;
            }
            let _ = parse_maps(&line);
        }

        #[test]
        fn what_is_written_is_read(start in 0u64..1 << 47, length in 1u64..1 << 30, inode in any::<u64>()) {
            let line = format!("{start:x}-{:x} r-xp 00000000 08:01 {inode} /lib/x.so", start + length);
            let mapping = one(&line).expect("a mapping");
            prop_assert_eq!((mapping.start, mapping.length(), mapping.inode), (start, length, inode));
        }
    }
}
