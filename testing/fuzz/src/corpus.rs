//! The stored cases, and the words in them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The files of one folder.
#[derive(Debug)]
pub(crate) struct Corpus {
    folder: PathBuf,
    /// Sorted by name.
    pub(crate) cases: Vec<(PathBuf, Vec<u8>)>,
}

/// Inputs that parsers of any text often handle wrongly.
const STUMBLES: &[&str] = &[
    "\0",
    "\n",
    "\r\n",
    "\t",
    " ",
    "  ",
    "\u{a0}",
    "\u{2028}",
    "\u{feff}",
    "\u{7f}",
    "\u{85}",
    "é",
    "٣",
    "ß",
    "İ",
    "👍",
    "-",
    "+",
    "0",
    "00",
    "-1",
    "+1",
    "1e9",
    "0x10",
    "255",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "NaN",
    "null",
    "true",
    "..",
    "/",
    "//",
    "\\",
    ":",
    ";",
    ",",
    ".",
    "@",
    "?",
    "#",
    "&",
    "=",
    "%",
    "%00",
    "%0A",
    "%2F",
    "%40",
    "%ff",
    "%",
    "{",
    "}",
    "{}",
    "{{",
    "[",
    "]",
    "(",
    ")",
    "'",
    "\"",
    "`",
    "*",
    "<",
    ">",
    "|",
    "~",
    "^",
    "$",
    "!",
];

impl Corpus {
    /// # Panics
    /// If there is no file: a target whose corpus is lost would pass forever.
    pub(crate) fn read(folder: &Path) -> Self {
        let entries = fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("no corpus in {}: {error}", folder.display()));
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.is_file())
            .collect();
        files.sort();
        assert!(
            !files.is_empty(),
            "the corpus {} is empty",
            folder.display()
        );
        let cases = files.into_iter().map(|file| {
            let bytes = fs::read(&file)
                .unwrap_or_else(|error| panic!("{} cannot be read: {error}", file.display()));
            (file, bytes)
        });
        Self {
            folder: folder.to_owned(),
            cases: cases.collect(),
        }
    }

    /// Returns the words of all cases and the bytes between them, each once, and common problem
    /// inputs.
    pub(crate) fn words(&self) -> Vec<Vec<u8>> {
        let of_cases = self.cases.iter().flat_map(|(_, bytes)| words_of(bytes));
        let words: BTreeSet<&[u8]> = of_cases
            .filter(|word| word.len() <= 64)
            .chain(STUMBLES.iter().map(|word| word.as_bytes()))
            .collect();
        words.into_iter().map(<[u8]>::to_vec).collect()
    }

    /// Writes a case into the folder; returns its path.
    pub(crate) fn keep(&self, bytes: &[u8]) -> String {
        let sum = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
        });
        let file = self.folder.join(format!("found-{sum:016x}"));
        match fs::write(&file, bytes) {
            Ok(()) => file.display().to_string(),
            Err(error) => format!("nothing, since {} {error}", file.display()),
        }
    }
}

/// Splits into runs of letters and digits, and single other bytes.
pub(crate) fn words_of(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunk_by(|a, b| is_of_word(*a) && is_of_word(*b))
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}
