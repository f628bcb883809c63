//! The one place where native and browser disagree about `Send`, and about how a digest is made.
//!
//! Natively futures cross threads; in a browser nothing does, and most handles of the page cannot.
//! Every trait of the crate uses these three names instead of choosing for itself.

#[cfg(all(feature = "browser", target_arch = "wasm32"))]
pub mod border;
pub(crate) mod digest;
#[cfg(not(target_arch = "wasm32"))]
mod digest_quick;
#[cfg(any(test, target_arch = "wasm32"))]
mod digest_small;
#[cfg(feature = "page")]
pub mod values;

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use digest_quick::Hash;
#[cfg(target_arch = "wasm32")]
pub(crate) use digest_small::Hash;
use std::future::Future;
use std::pin::Pin;

/// A boxed future; `Send` natively, not in the browser.
#[cfg(not(target_arch = "wasm32"))]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A boxed future; `Send` natively, not in the browser.
#[cfg(target_arch = "wasm32")]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// `Send` natively, nothing in the browser.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + ?Sized> MaybeSend for T {}
/// `Send` natively, nothing in the browser.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSend {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSend for T {}

/// `Sync` natively, nothing in the browser.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSync: Sync {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Sync + ?Sized> MaybeSync for T {}
/// `Sync` natively, nothing in the browser.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSync {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSync for T {}

/// A map: hashed natively; in a page, which holds a handful, a list that costs little to download.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) type Map<K, V> = std::collections::HashMap<K, V>;
#[cfg(target_arch = "wasm32")]
pub(crate) use list::Map;

#[cfg(target_arch = "wasm32")]
mod list {
    /// See the native `Map`: the same calls.
    #[derive(Debug)]
    pub(crate) struct Map<K, V>(Vec<(K, V)>);

    impl<K, V> Default for Map<K, V> {
        fn default() -> Self {
            Map(Vec::new())
        }
    }

    impl<K: PartialEq, V> Map<K, V> {
        fn place(&self, key: &K) -> Option<usize> {
            self.0.iter().position(|(known, _)| known == key)
        }

        pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
            let place = self.place(key)?;
            self.0.get_mut(place).map(|(_, value)| value)
        }

        pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
            if let Some(known) = self.get_mut(&key) {
                return Some(std::mem::replace(known, value));
            }
            self.0.push((key, value));
            None
        }

        pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
            let place = self.place(key)?;
            Some(self.0.swap_remove(place).1)
        }
    }
}
