//! Encoded values behind each other, one for each of some waves that follow each other.
//!
//! Numbers come as fast as a leaf has them, and an allocation for each would cost many times what the number does. So
//! values lie in one piece, each behind its length, from the leaf that contributes them to the next merge, and are looked
//! at in place.
//!
//! Next: `filter` for who merges them, `trimtab-overlay`'s runs for how they travel.

use crate::plain::put_number;

/// Longest encoded value, in bytes: a frame of the tree must hold it.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// Values that lie behind each other. A length is seven bits to a byte, lowest first, as all bytes but its last say by
/// their highest bit.
#[derive(Clone, Debug, Default)]
pub struct Values {
    count: usize,
    /// None is longer, in bytes; of what was cut, perhaps all are shorter.
    longest: usize,
    bytes: Vec<u8>,
}

/// [`Values`], or some of them that follow each other, in place. As an iterator it gives each.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValuesRef<'a> {
    count: usize,
    longest: usize,
    bytes: &'a [u8],
}

impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Values {}

impl PartialEq for ValuesRef<'_> {
    fn eq(&self, other: &ValuesRef<'_>) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for ValuesRef<'_> {}

impl Values {
    /// None yet, with room for some bytes.
    pub fn with_capacity(byte_count: usize) -> Values {
        Values { bytes: Vec::with_capacity(byte_count), ..Values::default() }
    }

    /// Takes bytes of another node, if they are values, at most so many, and none of several is longer than that.
    pub fn read(bytes: Vec<u8>, count_max: usize, byte_count_max: usize) -> Option<Values> {
        let (mut count, mut longest, mut left) = (0, 0, &bytes[..]);
        while !left.is_empty() {
            let (value, behind) = split_first(left)?;
            (count, longest, left) = (count + 1, value.len().max(longest), behind);
            if count > count_max || (count > 1 && longest > byte_count_max) {
                return None;
            }
        }
        Some(Values { count, longest, bytes })
    }

    /// Puts a value behind the others.
    pub fn push(&mut self, value: &[u8]) {
        put_number(value.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(value);
        self.count += 1;
        self.longest = self.longest.max(value.len());
    }

    /// Puts a value behind the others that `put` writes; what fails leaves nothing.
    ///
    /// # Errors
    /// Those of `put`.
    pub fn push_with<E>(&mut self, put: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<(), E> {
        let at = self.bytes.len();
        // Nearly all are so short that their length is one byte.
        self.bytes.push(0);
        let put = put(&mut self.bytes);
        let length = self.bytes.len() - at - 1;
        match (put, u8::try_from(length)) {
            (Ok(()), Ok(short)) if short < 0x80 => self.bytes[at] = short,
            (Ok(()), _) => {
                let value = self.bytes.split_off(at + 1);
                self.bytes.truncate(at);
                put_number(length as u64, &mut self.bytes);
                self.bytes.extend_from_slice(&value);
            }
            (Err(error), _) => {
                self.bytes.truncate(at);
                return Err(error);
            }
        }
        self.count += 1;
        self.longest = self.longest.max(length);
        Ok(())
    }

    /// Puts others behind these.
    pub fn extend(&mut self, others: ValuesRef<'_>) {
        self.bytes.extend_from_slice(others.bytes);
        self.count += others.count;
        self.longest = self.longest.max(others.longest);
    }

    /// Cuts off those behind the first `count`.
    pub fn split_off(&mut self, count: usize) -> Values {
        let mut rest = self.view();
        let kept = rest.split_to(count);
        let (kept_count, at, rest_count) = (kept.count, kept.bytes.len(), rest.count);
        let bytes = self.bytes.split_off(at);
        self.count = kept_count;
        Values { count: rest_count, longest: self.longest, bytes }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their bytes, lengths included, as [`Values::read`] takes them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// To look at.
    pub fn view(&self) -> ValuesRef<'_> {
        ValuesRef { count: self.count, longest: self.longest, bytes: &self.bytes }
    }
}

impl<V: AsRef<[u8]>> FromIterator<V> for Values {
    fn from_iter<I: IntoIterator<Item = V>>(all: I) -> Values {
        let mut values = Values::default();
        all.into_iter().for_each(|value| values.push(value.as_ref()));
        values
    }
}

impl<'a> ValuesRef<'a> {
    /// Takes the first `count` off, or all if there are no more.
    pub fn split_to(&mut self, count: usize) -> ValuesRef<'a> {
        self.split_while(count, usize::MAX)
    }

    /// Takes off the first `count` at most, up to the first that is longer than so many bytes.
    pub fn split_while(&mut self, count: usize, byte_count_max: usize) -> ValuesRef<'a> {
        let all = *self;
        if all.are_few_and_short(count, byte_count_max) {
            return std::mem::take(self);
        }
        let (mut taken, mut left) = (0, all.bytes);
        while taken < count
            && let Some((value, behind)) = split_first(left)
            && value.len() <= byte_count_max
        {
            (taken, left) = (taken + 1, behind);
        }
        *self = ValuesRef { count: all.count - taken, bytes: left, ..all };
        ValuesRef { count: taken, bytes: &all.bytes[..all.bytes.len() - left.len()], ..all }
    }

    /// True if there are so many at most, and none is longer than so many bytes; of what was cut, perhaps it isn't
    /// known.
    pub fn are_few_and_short(&self, count_max: usize, byte_count_max: usize) -> bool {
        self.count <= count_max && self.longest <= byte_count_max
    }

    /// The values behind the first `count`.
    pub fn behind(mut self, count: usize) -> ValuesRef<'a> {
        self.split_to(count);
        self
    }

    /// The same, of one's own.
    pub fn to_values(self) -> Values {
        Values { count: self.count, longest: self.longest, bytes: self.bytes.to_vec() }
    }
}

impl<'a> Iterator for ValuesRef<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (value, rest) = split_first(self.bytes)?;
        *self = ValuesRef { count: self.count - 1, bytes: rest, ..*self };
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for ValuesRef<'_> {}

/// The first value and what is behind it; none where there is no whole one.
#[inline]
fn split_first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, behind) = bytes.split_first()?;
    if *first < 0x80 { behind.split_at_checked(usize::from(*first)) } else { split_first_long(*first, behind) }
}

#[cold]
fn split_first_long(first: u8, mut behind: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut length, mut shift) = (usize::from(first & 0x7f), 7);
    loop {
        let (next, rest) = behind.split_first()?;
        length |= usize::from(next & 0x7f) << shift;
        (behind, shift) = (rest, shift + 7);
        if length > VALUE_BYTES_MAX || shift > 28 {
            return None;
        }
        if *next < 0x80 {
            return behind.split_at_checked(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(values: ValuesRef<'_>) -> Vec<Vec<u8>> {
        values.map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn long_values_have_long_lengths() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 1 << 21, VALUE_BYTES_MAX] {
            let (value, mut pushed) = (vec![7; length], Values::default());
            pushed.push(&value);
            pushed.push(b"behind");
            assert_eq!(all(pushed.view()), [value.clone(), b"behind".to_vec()]);
            let mut put = Values::default();
            let mut write = |bytes: &[u8], result: Result<(), ()>| {
                put.push_with(|out| {
                    out.extend_from_slice(bytes);
                    result
                })
            };
            assert_eq!((write(&value, Ok(())), write(b"half", Err(()))), (Ok(()), Err(())));
            put.push(b"behind");
            assert_eq!(put, pushed);
            assert_eq!(Values::read(put.bytes().to_vec(), 2, length.max(6)), Some(put));
        }
    }

    #[test]
    fn what_is_no_list_of_values_is_refused() {
        for (bytes, count_max) in [
            (vec![1], 9),
            (vec![0x80], 9),
            (vec![0x80; 9], 9),
            (vec![0xff, 0xff, 0xff, 0x7f, 0], 9),
            (vec![0; 3], 2),
            (vec![0, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 9),
        ] {
            assert_eq!(Values::read(bytes.clone(), count_max, 9), None, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn values_are_cut_and_joined_without_loss(
            each in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20),
            cut in 0_usize..25,
        ) {
            let whole: Values = each.iter().collect();
            prop_assert_eq!(all(whole.view()), &each[..]);
            let (mut first, at) = (whole.clone(), cut.min(each.len()));
            let rest = first.split_off(cut);
            prop_assert_eq!((first.len(), rest.len()), (at, each.len() - at));
            prop_assert_eq!((all(first.view()), all(rest.view())), (each[..at].to_vec(), each[at..].to_vec()));
            let mut looked = whole.view();
            prop_assert_eq!((looked.split_to(cut), looked), (first.view(), rest.view()));
            let (mut looked, long) = (whole.view(), cut * 5);
            let short = looked.split_while(cut, long);
            let expected = each.iter().take(cut).take_while(|value| value.len() <= long).count();
            prop_assert_eq!((short, looked), (whole.view().split_to(expected), whole.view().behind(expected)));
            first.extend(rest.view());
            prop_assert_eq!(first, whole);
        }

        #[test]
        fn hostile_bytes_give_values_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Some(values) = Values::read(bytes.clone(), 60, 60) {
                prop_assert_eq!(values.view().count(), values.len());
                prop_assert_eq!(values.bytes(), &bytes[..]);
            }
        }
    }
}
