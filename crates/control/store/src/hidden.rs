//! Arguments of programs as a hash: equal ones are known to be equal, and can't be read.
//!
//! Next: `private` for whose are kept so; `history` for runs alike.

use sha2::{Digest, Sha256};

/// A hash in the place of arguments begins so.
const HASHED: &str = "sha256:";
/// Hexadecimal digits of a hash.
const DIGITS: usize = 64;

/// SHA-256 of words, each with its length before it; of words that are hidden the same as of the words themselves.
pub(crate) fn hash(words: &[String]) -> String {
    if let Some(digits) = hidden_hash(words) {
        return digits.to_owned();
    }
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update((word.len() as u64).to_le_bytes());
        hasher.update(word.as_bytes());
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The word that is kept in the place of arguments: their hash. No arguments are no secret.
pub(crate) fn hidden(words: &[String]) -> Vec<String> {
    match words {
        [] => Vec::new(),
        words => vec![format!("{HASHED}{}", hash(words))],
    }
}

/// The digits, if these words are hidden ones.
fn hidden_hash(words: &[String]) -> Option<&str> {
    let [word] = words else { return None };
    let digits = word.strip_prefix(HASHED)?;
    let is_hash = digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hash.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn arguments_are_told_apart_by_their_hash() {
        let of = |all: &[&str]| hash(&words(all));
        assert_ne!(of(&["a", "b"]), of(&["ab"]));
        assert_ne!(of(&["a", ""]), of(&["a"]));
        assert_eq!((of(&["a"]), of(&["a"]).len()), (of(&["a"]), DIGITS));
    }

    #[test]
    fn hidden_arguments_are_equal_to_themselves_and_stay_hidden() {
        let (plain, other) = (words(&["--key", "secret"]), words(&["--key", "other"]));
        let kept = hidden(&plain);
        assert!(kept.len() == 1 && kept[0].starts_with(HASHED) && !kept[0].contains("secret"));
        assert_eq!((hash(&kept), hidden(&kept)), (hash(&plain), kept.clone()));
        assert_ne!(hash(&hidden(&other)), hash(&plain));
        assert_eq!(hidden(&[]), Vec::<String>::new());
        for one in ["sha256:", "sha256:12", "sha256:secret"] {
            assert_ne!(hidden(&words(&[one])), words(&[one]), "{one} is an argument");
        }
    }
}
