//! Data as they are described: kind, type, rows, columns, place.
//!
//! Next: `plan`, which names them.

use crate::error::{DataFault, Error};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a column's number and of a row's beginning, in sparse matrices.
const COLUMN_BYTES: u64 = 4;
const ROW_BYTES: u64 = 8;

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 1 byte.
    Byte,
    /// 4 bytes.
    Int,
    /// 8 bytes.
    Long,
    /// 4 bytes.
    Float,
    /// 8 bytes.
    Double,
    /// Two of `Float`.
    Complex,
    /// Two of `Double`.
    DoubleComplex,
}

/// All types, with the words for them and their size in bytes.
const ELEMENTS: [(Element, &str, u64); 7] = [
    (Element::Byte, "byte", 1),
    (Element::Int, "int", 4),
    (Element::Long, "long", 8),
    (Element::Float, "float", 4),
    (Element::Double, "double", 8),
    (Element::Complex, "complex", 8),
    (Element::DoubleComplex, "doublecomplex", 16),
];

impl Element {
    fn of_word(word: &str) -> Result<Element, DataFault> {
        let found = ELEMENTS.iter().find(|(_, known, _)| *known == word);
        let known = || ELEMENTS.map(|(_, word, _)| word).join(", ");
        found.map(|(element, ..)| *element).ok_or_else(|| DataFault::NoType { word: word.to_owned(), known: known() })
    }

    /// Its size.
    pub fn bytes(self) -> u64 {
        ELEMENTS[self as usize].2
    }
}

/// How much there is of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A matrix whose elements are all there.
    Dense {
        /// Rows.
        rows: u64,
        /// Columns.
        columns: u64,
    },
    /// A matrix compressed by rows: each entry has its value and its column's number in 4 bytes, each row its beginning in 8.
    Sparse {
        /// Rows.
        rows: u64,
        /// Columns.
        columns: u64,
        /// Entries that are not zero.
        entries: u64,
    },
    /// One row.
    Vector {
        /// Elements.
        length: u64,
    },
    /// Bytes of which no more is known.
    Bytes(u64),
}

/// Described data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Data {
    /// The words that describe it, without its place.
    pub words: String,
    /// The type of its elements.
    pub element: Element,
    /// How much there is.
    pub shape: Shape,
    /// The host that has it; `None`: a step makes it.
    pub place: Option<String>,
}

impl Data {
    /// Reads `dense:double:4096x4096@HOST`, `sparse:double:4096x4096:20000`, `vector:int:4096` or `bytes:10MB`.
    ///
    /// # Errors
    /// [`Error::NoData`].
    pub fn parse(text: &str) -> Result<Data, Error> {
        parsed(text).map_err(|why| Error::NoData { text: text.to_owned(), why })
    }

    /// Reads the same behind a name, `A=dense:double:4096x4096@HOST`.
    ///
    /// # Errors
    /// [`Error::NoData`].
    pub fn parse_named(text: &str) -> Result<(String, Data), Error> {
        let no_data = |why: DataFault| Error::NoData { text: text.to_owned(), why };
        let (name, data) = text.split_once('=').ok_or_else(|| no_data(DataFault::NoName))?;
        if !is_name(name) {
            return Err(no_data(DataFault::WrongName));
        }
        Ok((name.to_owned(), Data::parse(data)?))
    }

    /// Its size.
    pub fn bytes(&self) -> f64 {
        let element = self.element.bytes() as f64;
        match self.shape {
            Shape::Dense { rows, columns } => rows as f64 * columns as f64 * element,
            Shape::Sparse { rows, entries, .. } => {
                entries as f64 * (element + COLUMN_BYTES as f64) + (rows as f64 + 1.0) * ROW_BYTES as f64
            }
            Shape::Vector { length } => length as f64 * element,
            Shape::Bytes(bytes) => bytes as f64,
        }
    }

    /// Its rows, columns or entries, as an argument `A.rows` asks for them.
    pub(crate) fn size(&self, of: &str) -> Option<f64> {
        let size = match (self.shape, of) {
            (Shape::Dense { rows, .. } | Shape::Sparse { rows, .. }, "rows") => rows,
            (Shape::Dense { columns, .. } | Shape::Sparse { columns, .. }, "columns") => columns,
            (Shape::Sparse { entries, .. }, "entries") => entries,
            (Shape::Vector { length }, "length") => length,
            (_, "bytes") => return Some(self.bytes()),
            _ => return None,
        };
        Some(size as f64)
    }
}

impl fmt::Display for Data {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words)
    }
}

impl From<Data> for String {
    fn from(data: Data) -> String {
        match data.place {
            Some(host) => format!("{}@{host}", data.words),
            None => data.words,
        }
    }
}

/// True for letters, digits and `_` with a letter first.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn parsed(text: &str) -> Result<Data, DataFault> {
    let (words, place) = match text.split_once('@') {
        Some((_, "")) => return Err(DataFault::NoHost),
        Some((words, place)) => (words, Some(place.to_owned())),
        None => (text, None),
    };
    let parts: Vec<&str> = words.split(':').collect();
    let (element, shape) = match parts[..] {
        ["dense", element, sizes] => {
            let (rows, columns) = by(sizes)?;
            (Element::of_word(element)?, Shape::Dense { rows, columns })
        }
        ["sparse", element, sizes, entries] => {
            let ((rows, columns), entries) = (by(sizes)?, count(entries)?);
            if entries as f64 > rows as f64 * columns as f64 {
                return Err(DataFault::TooManyEntries { entries, rows, columns });
            }
            (Element::of_word(element)?, Shape::Sparse { rows, columns, entries })
        }
        ["sparse", _, _] => return Err(DataFault::NoEntries),
        ["vector", element, length] => (Element::of_word(element)?, Shape::Vector { length: count(length)? }),
        ["bytes", size] => (Element::Byte, Shape::Bytes(in_bytes(size)? as u64)),
        [kind, ..] => return Err(DataFault::NoKind { word: kind.to_owned() }),
        [] => return Err(DataFault::Empty),
    };
    let data = Data { words: words.to_owned(), element, shape, place };
    // Beyond this, numbers of bytes are not exact any more.
    if data.bytes() > 2.0_f64.powi(53) { Err(DataFault::TooLarge) } else { Ok(data) }
}

fn by(sizes: &str) -> Result<(u64, u64), DataFault> {
    let (rows, columns) = sizes.split_once('x').ok_or_else(|| DataFault::NoSizes { text: sizes.to_owned() })?;
    Ok((count(rows)?, count(columns)?))
}

fn count(text: &str) -> Result<u64, DataFault> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<u64>().ok().filter(|number| is_plain && *number > 0);
    number.ok_or_else(|| DataFault::NoCount { text: text.to_owned() })
}

/// Reads an amount of data with or without a unit: 4096, 10kB, 1.5MB, 2GiB.
///
/// # Errors
/// [`DataFault::NoAmount`].
pub fn in_bytes(text: &str) -> Result<f64, DataFault> {
    let units =
        [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9)];
    let found = units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (number, unit) = found.unwrap_or_else(|| (text.strip_suffix('B').unwrap_or(text), 1.0));
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let bytes =
        number.parse::<f64>().ok().map(|number| (number * unit).round()).filter(|bytes| is_plain && *bytes >= 1.0);
    bytes.ok_or_else(|| DataFault::NoAmount { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_have_their_bytes() {
        for (text, bytes) in [
            ("dense:double:4096x4096@n1", 134_217_728.0),
            ("dense:doublecomplex:2x3", 96.0),
            ("vector:int:10@n2", 40.0),
            ("sparse:double:100x200:50", 50.0 * 12.0 + 101.0 * 8.0),
            ("bytes:10kB", 10_000.0),
            ("bytes:2MiB", 2_097_152.0),
            ("bytes:7", 7.0),
        ] {
            assert_eq!(Data::parse(text).expect(text).bytes(), bytes, "{text}");
        }
        for (at, (element, _, bytes)) in ELEMENTS.iter().enumerate() {
            assert_eq!((*element as usize, element.bytes()), (at, *bytes));
        }
    }

    #[test]
    fn data_that_can_not_be_are_refused() {
        for (text, said) in [
            ("dense:double:4096", "ROWSxCOLUMNS"),
            ("dense:double:-4x4", "no count"),
            ("dense:double:NaNx4", "no count"),
            ("dense:double:0x4", "no count"),
            ("dense:double:4kBx4", "without a unit"),
            ("dense:quad:4x4", "no type"),
            ("cube:double:4x4", "none of"),
            ("sparse:double:4x4", "needs its entries"),
            ("sparse:double:4x4:17", "more than"),
            ("vector:double:4x4", "no count"),
            ("bytes:-1", "no amount"),
            ("bytes:3s", "no amount"),
            ("bytes:inf", "no amount"),
            ("dense:double:4x4@", "no host"),
            ("dense:double:4000000000x4000000000", "larger than"),
            ("", "none of"),
        ] {
            let error = Data::parse(text).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        assert!(Data::parse_named("dense:double:4x4").is_err() && Data::parse_named("2A=bytes:4").is_err());
        assert_eq!(Data::parse_named("A=bytes:4@n1").expect("data").1.place.as_deref(), Some("n1"));
    }
}
