//! Creates new cases from known ones.

use shedlock_proof::SeededRng;

use crate::corpus::{Corpus, words_of};

/// Longer inputs are truncated: a parser that reads one kilobyte correctly also reads two.
const LONGEST: usize = 4_096;

/// Changes cases by inserting parts of others.
#[derive(Debug)]
pub(crate) struct Mutator {
    cases: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    pub(crate) fn new(corpus: &Corpus) -> Self {
        Self {
            cases: corpus
                .cases
                .iter()
                .map(|(_, bytes)| bytes.clone())
                .collect(),
            words: corpus.words(),
        }
    }

    /// Returns a new case.
    pub(crate) fn next(&mut self, rng: &mut SeededRng) -> Vec<u8> {
        let mut bytes = if rng.below(16) == 0 {
            let count = rng.below(12);
            (0..count).flat_map(|_| self.word(rng).to_vec()).collect()
        } else {
            one(rng, &self.cases).cloned().unwrap_or_default()
        };
        for _ in 0..=rng.below(5) {
            self.change(&mut bytes, rng);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn word(&self, rng: &mut SeededRng) -> &[u8] {
        one(rng, &self.words).map_or(&[], Vec::as_slice)
    }

    fn change(&self, bytes: &mut Vec<u8>, rng: &mut SeededRng) {
        let (from, to) = part(rng, bytes.len());
        match rng.below(10) {
            0 | 1 => self.change_word(bytes, rng),
            2 => {
                let word = self.word(rng).to_vec();
                bytes.splice(from..from, word);
            }
            3 => drop(bytes.drain(from..to)),
            4 => {
                let part = bytes[from..to].to_vec();
                let at = rng.index(bytes.len() + 1);
                bytes.splice(at..at, part);
            }
            5 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte = rng.byte();
                }
            }
            6 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= 1 << rng.below(8);
                }
            }
            7 => {
                // The beginning of this case and the end of another one.
                let other = one(rng, &self.cases).map_or(&[][..], Vec::as_slice);
                let (start, _) = part(rng, other.len());
                bytes.truncate(from);
                bytes.extend_from_slice(&other[start..]);
            }
            8 => {
                let word = self.word(rng).repeat(1 + rng.index(200));
                bytes.splice(from..to, word);
            }
            _ => change_number(bytes, rng),
        }
    }

    /// Replaces one word by another.
    fn change_word(&self, bytes: &mut Vec<u8>, rng: &mut SeededRng) {
        let words: Vec<&[u8]> = words_of(bytes).collect();
        let at = rng.index(words.len());
        let before: usize = words.iter().take(at).map(|word| word.len()).sum();
        let length = words.get(at).map_or(0, |word| word.len());
        let word = self.word(rng).to_vec();
        bytes.splice(before..before + length, word);
    }
}

/// One of these.
fn one<'a, T>(rng: &mut SeededRng, of: &'a [T]) -> Option<&'a T> {
    of.get(rng.index(of.len()))
}

/// A part of something of this length: from, to.
fn part(rng: &mut SeededRng, length: usize) -> (usize, usize) {
    let (a, b) = (rng.index(length + 1), rng.index(length + 1));
    // Mostly short ones.
    let (from, to) = (a.min(b), a.max(b));
    if rng.one_in(4) {
        (from, to)
    } else {
        (from, to.min(from + 1 + rng.index(8)))
    }
}

/// Adds a small number to a number, or subtracts it.
fn change_number(bytes: &mut Vec<u8>, rng: &mut SeededRng) {
    let numbers: Vec<(usize, usize)> = bytes
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .scan(0, |end, part| {
            *end += part.len();
            Some((*end - part.len(), *end, part[0].is_ascii_digit()))
        })
        .filter_map(|(from, to, is_number)| is_number.then_some((from, to)))
        .collect();
    let Some((from, to)) = one(rng, &numbers).copied() else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes[from..to]).into_owned();
    let by = i128::from(rng.byte()) - 128;
    if let Ok(number) = text.parse::<i128>() {
        let changed = match rng.below(4) {
            0 => number.wrapping_mul(by),
            1 => number.wrapping_mul(1_000),
            _ => number + by,
        };
        bytes.splice(from..to, changed.to_string().into_bytes());
    }
}
