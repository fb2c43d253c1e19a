//! Models of pymcboost in Rust, scored by mcb.h: the bits are those of Python. There is no allocation and no std.
//!
//! ```ignore
//! let model = mcb::Model::open(&bytes)?;
//! let mut scores = vec![0.0; model.n_classes()];
//! let k = model.predict(&row, &mut scores);
//! println!("{}", model.label(k));
//! ```

#![no_std]

use core::ffi::{c_char, c_int, CStr};
use core::fmt;
use core::marker::PhantomData;

/// What mcb.c compiles an `mcb_model` into: 1536 bytes, aligned for its 64-bit numbers.
#[repr(C)]
struct Room([u64; 192]);

extern "C" {
    fn mcbr_open(m: *mut Room, bytes: *const u8, size: usize) -> c_int;
    fn mcbr_prepared_size(m: *const Room) -> usize;
    fn mcbr_prepare(m: *mut Room, memory: *mut u64, size: usize) -> c_int;
    fn mcbr_strerror(status: c_int) -> *const c_char;
    fn mcbr_n_features(m: *const Room) -> u32;
    fn mcbr_n_classes(m: *const Room) -> u32;
    fn mcbr_error_offset(m: *const Room) -> u64;
    fn mcbr_error_tag(m: *const Room) -> *const c_char;
    fn mcbr_predict(m: *const Room, row: *const f32, scores: *mut f64) -> u32;
    fn mcbr_probabilities(m: *const Room, scores: *mut f64) -> c_int;
    fn mcbr_label_text(m: *const Room, k: u32, length: *mut usize) -> *const c_char;
    fn mcbr_label_int(m: *const Room, k: u32) -> i64;
}

/// A file that is refused, or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// One of MCB_E_... of mcb.h.
    pub status: i32,
    /// Section of the file; zeros for its header.
    pub tag: [u8; 4],
    /// Byte of the file.
    pub offset: u64,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let text = unsafe { CStr::from_ptr(mcbr_strerror(self.status)) };
        write!(f, "{}", text.to_str().unwrap_or("unknown status"))?;
        match core::str::from_utf8(&self.tag) {
            Ok(tag) if self.tag[0] != 0 => write!(f, " (section {}, byte {})", tag, self.offset),
            _ => Ok(()),
        }
    }
}

impl core::error::Error for Error {}

/// Label of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label<'a> {
    Int(i64),
    Text(&'a str),
}

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Label::Int(number) => write!(f, "{number}"),
            Label::Text(text) => f.write_str(text),
        }
    }
}

/// A model that reads the bytes of its file where they are. Threads may share it.
pub struct Model<'a> {
    room: Room,
    bytes: PhantomData<&'a mut [u64]>,
}

impl<'a> Model<'a> {
    /// Check every byte of a model file.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut room = Room([0; 192]);
        let status = unsafe { mcbr_open(&mut room, bytes.as_ptr(), bytes.len()) };
        if status != 0 {
            let mut tag = [0; 4];
            let text = unsafe { CStr::from_ptr(mcbr_error_tag(&room)) }.to_bytes();
            tag[..text.len().min(4)].copy_from_slice(&text[..text.len().min(4)]);
            return Err(Error { status, tag, offset: unsafe { mcbr_error_offset(&room) } });
        }
        Ok(Model { room, bytes: PhantomData })
    }

    /// How many u64 `prepare` takes; 0 where there is nothing to prepare.
    pub fn prepared_len(&self) -> usize {
        unsafe { mcbr_prepared_size(&self.room) }.div_ceil(8)
    }

    /// Make rows of trees faster with memory of `prepared_len()`.
    pub fn prepare(&mut self, memory: &'a mut [u64]) -> Result<(), Error> {
        match unsafe { mcbr_prepare(&mut self.room, memory.as_mut_ptr(), 8 * memory.len()) } {
            0 => Ok(()),
            status => Err(Error { status, tag: [0; 4], offset: 0 }),
        }
    }

    pub fn n_features(&self) -> usize {
        unsafe { mcbr_n_features(&self.room) as usize }
    }

    pub fn n_classes(&self) -> usize {
        unsafe { mcbr_n_classes(&self.room) as usize }
    }

    /// Class of a row, and its scores. Panics unless there are `n_features()` and `n_classes()` of them.
    pub fn predict(&self, row: &[f32], scores: &mut [f64]) -> u32 {
        assert_eq!(row.len(), self.n_features(), "numbers of a row");
        assert_eq!(scores.len(), self.n_classes(), "scores");
        unsafe { mcbr_predict(&self.room, row.as_ptr(), scores.as_mut_ptr()) }
    }

    /// Scores of a row become its probabilities. False where the model has none. Panics unless there are `n_classes()`.
    pub fn probabilities(&self, scores: &mut [f64]) -> bool {
        assert_eq!(scores.len(), self.n_classes(), "scores");
        unsafe { mcbr_probabilities(&self.room, scores.as_mut_ptr()) == 0 }
    }

    /// Label of class k. Panics unless k is below `n_classes()`.
    pub fn label(&self, k: u32) -> Label<'_> {
        assert!((k as usize) < self.n_classes(), "class {k} of {}", self.n_classes());
        let mut length = 0;
        let text = unsafe { mcbr_label_text(&self.room, k, &mut length) };
        if text.is_null() {
            return Label::Int(unsafe { mcbr_label_int(&self.room, k) });
        }
        let bytes = unsafe { core::slice::from_raw_parts(text.cast::<u8>(), length) };
        Label::Text(core::str::from_utf8(bytes).expect("mcb_open has checked it"))
    }
}
