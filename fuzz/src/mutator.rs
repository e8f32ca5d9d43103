//! New cases from those that are known.

use crate::chance::Chance;
use crate::corpus::{Corpus, words_of};

/// Longer ones are cut: what reads a kilobyte right reads two.
const LONGEST: usize = 4_096;

/// Changes cases by what stands in others.
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

    /// A case of which nobody knows.
    pub(crate) fn next(&mut self, chance: &mut Chance) -> Vec<u8> {
        let mut bytes = if chance.below(16) == 0 {
            let count = chance.below(12);
            (0..count)
                .flat_map(|_| self.word(chance).to_vec())
                .collect()
        } else {
            chance.one(&self.cases).cloned().unwrap_or_default()
        };
        for _ in 0..=chance.below(5) {
            self.change(&mut bytes, chance);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn word(&self, chance: &mut Chance) -> &[u8] {
        chance.one(&self.words).map_or(&[], Vec::as_slice)
    }

    fn change(&self, bytes: &mut Vec<u8>, chance: &mut Chance) {
        let (from, to) = chance.part(bytes.len());
        match chance.below(10) {
            0 | 1 => self.change_word(bytes, chance),
            2 => {
                let word = self.word(chance).to_vec();
                bytes.splice(from..from, word);
            }
            3 => drop(bytes.drain(from..to)),
            4 => {
                let part = bytes[from..to].to_vec();
                let at = chance.below(bytes.len() + 1);
                bytes.splice(at..at, part);
            }
            5 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte = chance.byte();
                }
            }
            6 => {
                if let Some(byte) = bytes.get_mut(from) {
                    *byte ^= 1 << chance.below(8);
                }
            }
            7 => {
                // The beginning of this one, the end of another one.
                let other = chance.one(&self.cases).map_or(&[][..], Vec::as_slice);
                let (start, _) = chance.part(other.len());
                bytes.truncate(from);
                bytes.extend_from_slice(&other[start..]);
            }
            8 => {
                let word = self.word(chance).repeat(1 + chance.below(200));
                bytes.splice(from..to, word);
            }
            _ => change_number(bytes, chance),
        }
    }

    /// Puts one word in the place of another.
    fn change_word(&self, bytes: &mut Vec<u8>, chance: &mut Chance) {
        let words: Vec<&[u8]> = words_of(bytes).collect();
        let at = chance.below(words.len());
        let before: usize = words.iter().take(at).map(|word| word.len()).sum();
        let length = words.get(at).map_or(0, |word| word.len());
        let word = self.word(chance).to_vec();
        bytes.splice(before..before + length, word);
    }
}

/// Adds a little to a number, or takes it away.
fn change_number(bytes: &mut Vec<u8>, chance: &mut Chance) {
    let numbers: Vec<(usize, usize)> = bytes
        .chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit())
        .scan(0, |end, part| {
            *end += part.len();
            Some((*end - part.len(), *end, part[0].is_ascii_digit()))
        })
        .filter_map(|(from, to, is_number)| is_number.then_some((from, to)))
        .collect();
    let Some((from, to)) = chance.one(&numbers).copied() else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes[from..to]).into_owned();
    let by = i128::from(chance.byte()) - 128;
    if let Ok(number) = text.parse::<i128>() {
        let changed = match chance.below(4) {
            0 => number.wrapping_mul(by),
            1 => number.wrapping_mul(1_000),
            _ => number + by,
        };
        bytes.splice(from..to, changed.to_string().into_bytes());
    }
}
