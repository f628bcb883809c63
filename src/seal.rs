//! Bodies and answers as the journal keeps them: plain, sealed, or not at all.

use crate::entry::{Frozen, Kept};
use crate::error::{Error, ErrorKind};
use std::sync::Arc;

/// What the journal keeps of a request's body and of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body {
    /// The bytes, as they are. The default: a crash is then survived without anyone's help.
    #[default]
    Stored,
    /// Only their fingerprint: to resume after a restart the caller supplies the body again.
    FingerprintOnly,
    /// The bytes, encrypted under the client's [`SealingKey`].
    #[cfg(feature = "sealing")]
    Sealed,
}

/// Encrypts what a journal keeps: XChaCha20-Poly1305, bound to the entry it belongs to.
///
/// The key is the caller's to keep. Without it a sealed entry cannot be resumed, but it is never
/// taken for damaged or dropped.
///
/// ```
/// use samekey::{Body, Client, SealingKey};
///
/// # let parts = samekey::testing::parts();
/// let key = SealingKey::new([42; 32]); // 32 bytes from a vault
/// let client = Client::with_parts("shop", parts).body(Body::Sealed).seal_with(key).build()?;
/// # Ok::<(), samekey::Error>(())
/// ```
#[cfg(feature = "sealing")]
#[derive(Clone)]
pub struct SealingKey([u8; 32]);

#[cfg(feature = "sealing")]
impl SealingKey {
    /// A key from 32 random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> SealingKey {
        SealingKey(bytes)
    }

    /// Eight bytes that name the key without telling it.
    fn name(&self) -> [u8; 8] {
        use sha2::{Digest, Sha256};
        let digest = Sha256::new()
            .chain_update(b"samekey sealing key")
            .chain_update(self.0)
            .finalize();
        std::array::from_fn(|i| digest[i])
    }
}

#[cfg(feature = "sealing")]
impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey(…)")
    }
}

/// What a text is, so that a body cannot be passed off as an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Body,
    Answer,
}

/// Seals with one key and opens with any: old keys stay useful while they are being replaced.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keeper {
    #[cfg(feature = "sealing")]
    keys: Vec<SealingKey>,
}

impl Keeper {
    /// The first key given seals; all of them open.
    #[cfg(feature = "sealing")]
    pub(crate) fn add(&mut self, key: SealingKey) {
        self.keys.push(key);
    }

    #[cfg(feature = "sealing")]
    pub(crate) fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The bytes as `mode` keeps them. `nonce` draws random bytes.
    pub(crate) fn keep(
        &self,
        mode: Body,
        bytes: &Arc<[u8]>,
        entry: &Frozen,
        part: Part,
        nonce: impl FnOnce() -> [u8; 32],
    ) -> Result<Kept, Error> {
        #[cfg(not(feature = "sealing"))]
        let _ = (entry, part, nonce);
        match mode {
            Body::Stored => Ok(Kept::Plain(Arc::clone(bytes))),
            Body::FingerprintOnly => Ok(Kept::NotKept),
            #[cfg(feature = "sealing")]
            Body::Sealed => self.seal(bytes, entry, part, nonce()).map(Kept::Sealed),
        }
    }

    /// The mode that made `kept`.
    pub(crate) fn mode_of(kept: &Kept) -> Body {
        match kept {
            #[cfg(feature = "sealing")]
            Kept::Sealed(_) => Body::Sealed,
            Kept::Plain(_) => Body::Stored,
            _ => Body::FingerprintOnly,
        }
    }

    /// The bytes again; `None` if they are not kept.
    pub(crate) fn open(
        &self,
        kept: &Kept,
        entry: &Frozen,
        part: Part,
    ) -> Result<Option<Arc<[u8]>>, Error> {
        match kept {
            Kept::Plain(bytes) => Ok(Some(Arc::clone(bytes))),
            #[cfg(feature = "sealing")]
            Kept::Sealed(bytes) => {
                let bytes = self.unseal(bytes, entry, part)?;
                Ok(Some(bytes.into()))
            }
            #[cfg(not(feature = "sealing"))]
            Kept::Sealed(_) => {
                let _ = (entry, part);
                Err(Error::new(
                    ErrorKind::Locked,
                    "the entry is sealed, and this build has no sealing; nothing was sent and nothing is lost",
                ))
            }
            _ => Ok(None),
        }
    }

    #[cfg(feature = "sealing")]
    fn seal(
        &self,
        bytes: &[u8],
        entry: &Frozen,
        part: Part,
        nonce: [u8; 32],
    ) -> Result<Vec<u8>, Error> {
        use chacha20poly1305::aead::{Aead, Payload};
        let key = self
            .keys
            .first()
            .ok_or_else(|| locked("no sealing key was given to the client"))?;
        let nonce: [u8; 24] = std::array::from_fn(|i| nonce[i]);
        let aad = bound_to(entry, part);
        let payload = Payload {
            msg: bytes,
            aad: &aad,
        };
        let sealed = cipher(key).encrypt(&nonce.into(), payload);
        let sealed = sealed.map_err(|_| locked("the body is too large to be sealed"))?;
        Ok([&key.name()[..], &nonce, &sealed].concat())
    }

    #[cfg(feature = "sealing")]
    fn unseal(&self, sealed: &[u8], entry: &Frozen, part: Part) -> Result<Vec<u8>, Error> {
        use chacha20poly1305::aead::{Aead, Payload};
        let altered = || locked("its sealed bytes were altered");
        let (name, rest) = sealed.split_first_chunk::<8>().ok_or_else(altered)?;
        let (nonce, text) = rest.split_first_chunk::<24>().ok_or_else(altered)?;
        let key = self.keys.iter().find(|key| key.name() == *name);
        let key =
            key.ok_or_else(|| locked("it is sealed under a key that this client was not given"))?;
        let aad = bound_to(entry, part);
        let payload = Payload {
            msg: text,
            aad: &aad,
        };
        cipher(key)
            .decrypt(&(*nonce).into(), payload)
            .map_err(|_| altered())
    }
}

#[cfg(feature = "sealing")]
fn locked(why: &str) -> Error {
    Error::new(
        ErrorKind::Locked,
        [
            "the entry cannot be opened: ",
            why,
            "; nothing was sent and nothing is lost",
        ]
        .concat(),
    )
}

#[cfg(feature = "sealing")]
fn cipher(key: &SealingKey) -> chacha20poly1305::XChaCha20Poly1305 {
    use chacha20poly1305::KeyInit;
    chacha20poly1305::XChaCha20Poly1305::new(&key.0.into())
}

/// The fields that the sealed bytes belong to: moved to another entry they do not open.
#[cfg(feature = "sealing")]
fn bound_to(entry: &Frozen, part: Part) -> Vec<u8> {
    let part = match part {
        Part::Body => "body",
        Part::Answer => "answer",
    };
    let mut aad = Vec::new();
    let generation = crate::text::decimal(entry.generation);
    for field in [
        part,
        entry.key.as_str(),
        entry.scope.as_str(),
        &entry.intent,
        &generation,
        entry.method.as_str(),
        &entry.url,
    ] {
        aad.extend((field.len() as u64).to_le_bytes());
        aad.extend(field.as_bytes());
    }
    aad
}
