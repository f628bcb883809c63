//! Lists of plain values, as the bytes in which they cross between Rust and a page's scripts.

/// A list of values on its way to a script.
#[derive(Clone, Debug, Default)]
pub struct Pack(Vec<u8>);

impl Pack {
    /// A list that begins with this text: mostly what is asked for.
    #[must_use]
    pub fn of(what: &str) -> Pack {
        let mut pack = Pack::default();
        pack.text(what);
        pack
    }

    /// Adds nothing: what is not there.
    pub fn nothing(&mut self) {
        self.0.push(0);
    }

    /// Adds a number.
    #[inline(never)]
    pub fn number(&mut self, number: f64) {
        self.0.push(3);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Adds a flag.
    pub fn flag(&mut self, is_so: bool) {
        self.0.push(1 + u8::from(is_so));
    }

    /// Adds a text.
    #[inline(never)]
    pub fn text(&mut self, text: &str) {
        self.sized(4, text.as_bytes());
    }

    /// Adds a text, or nothing.
    pub fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.nothing(),
        }
    }

    /// Adds bytes.
    #[inline(never)]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.sized(5, bytes);
    }

    /// Adds bytes, or nothing.
    pub fn optional_bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.nothing(),
        }
    }

    fn sized(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    /// Adds what another list holds.
    pub fn append(&mut self, other: &Pack) {
        self.0.extend_from_slice(&other.0);
    }

    /// As it crosses.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Pack> for Vec<u8> {
    fn from(pack: Pack) -> Vec<u8> {
        pack.0
    }
}

/// Values from a script, one after the other. Our own scripts write them: what is not as expected reads
/// as empty.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    /// The values in these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Values<'a> {
        Values(bytes)
    }

    /// Whether there are no more.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn cut(&mut self, length: usize) -> &'a [u8] {
        let (cut, left) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = left;
        cut
    }

    /// The bytes of the next value; `None` if it is nothing or no.
    #[inline(never)]
    fn next(&mut self) -> Option<&'a [u8]> {
        match self.cut(1).first()? {
            0 | 1 => None,
            2 => Some(&[]),
            3 => Some(self.cut(8)),
            _ => {
                let length = self.cut(4).try_into().unwrap_or_default();
                Some(self.cut(u32::from_le_bytes(length) as usize))
            }
        }
    }

    /// The next value, bytes.
    pub fn optional_bytes(&mut self) -> Option<&'a [u8]> {
        self.next()
    }

    /// The next value, bytes.
    pub fn bytes(&mut self) -> &'a [u8] {
        self.next().unwrap_or_default()
    }

    /// The next value, a text or nothing.
    #[inline(never)]
    pub fn optional(&mut self) -> Option<&'a str> {
        str::from_utf8(self.next()?).ok()
    }

    /// The next value, a text.
    pub fn text(&mut self) -> &'a str {
        self.optional().unwrap_or_default()
    }

    /// The next value, a number or nothing.
    #[inline(never)]
    pub fn optional_number(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.next()?.try_into().ok()?))
    }

    /// The next value, a number.
    pub fn number(&mut self) -> f64 {
        self.optional_number().unwrap_or_default()
    }

    /// The next value, a flag.
    pub fn flag(&mut self) -> bool {
        self.next().is_some()
    }
}
