//! One operation.

use crate::shape;
use futures_core::Stream;
use js_sys::{Function, Promise};
use samekey::{Error, Operation, Phase, Updates};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;

/// An operation; the package's `Operation` is made of it.
#[wasm_bindgen]
pub struct RawOperation(Rc<Operation>);

impl RawOperation {
    pub(crate) fn new(operation: Operation) -> RawOperation {
        RawOperation(Rc::new(operation))
    }

    fn change<F>(&self, change: impl FnOnce(Rc<Operation>) -> F) -> Promise
    where
        F: Future<Output = Result<Phase, Error>> + 'static,
    {
        let work = change(Rc::clone(&self.0));
        shape::promise(async move {
            let phase = work.await.map_err(|error| shape::error(&error))?;
            Ok(phase.name().into())
        })
    }
}

fn tell(updates: &mut Updates, listener: &Function, context: &mut Context<'_>) {
    while let Poll::Ready(Some(update)) = Pin::new(&mut *updates).poll_next(context) {
        // A listener that throws must not stop a payment.
        let _ = listener.call1(&JsValue::UNDEFINED, &shape::update(&update));
    }
}

#[wasm_bindgen]
impl RawOperation {
    /// Drives it to an end, telling `listener` of each step. When `stop` is fulfilled it is let go,
    /// as if the page had been left: it can be resumed.
    pub fn send(&self, listener: Function, stop: Promise) -> Promise {
        let operation = Rc::clone(&self.0);
        shape::promise(async move {
            let mut updates = operation.updates();
            let mut stop = JsFuture::from(stop);
            let mut drive = pin!(operation.send());
            poll_fn(|context| {
                let driven = drive.as_mut().poll(context);
                tell(&mut updates, &listener, context);
                match driven {
                    Poll::Ready(Ok(outcome)) => Poll::Ready(Ok(shape::outcome(&outcome))),
                    Poll::Ready(Err(error)) => Poll::Ready(Err(shape::error(&error))),
                    Poll::Pending => Pin::new(&mut stop).poll(context).map(|_| Ok(JsValue::NULL)),
                }
            })
            .await
        })
    }

    /// Stops it for good.
    pub fn cancel(&self) -> Promise {
        self.change(|operation| async move { operation.cancel().await })
    }

    /// Settles it by hand.
    pub fn settle(&self, happened: bool, note: String) -> Promise {
        self.change(move |operation| async move { operation.settle(happened, &note).await })
    }

    /// Closes it, whatever happened.
    pub fn abandon(&self, note: String) -> Promise {
        self.change(move |operation| async move { operation.abandon(&note).await })
    }

    /// Reads it again.
    pub fn refresh(&self) -> Promise {
        self.change(|operation| async move { operation.refresh().await })
    }

    /// Leaves only a tombstone of it.
    pub fn forget(&self) -> Promise {
        self.change(|operation| async move {
            operation.forget().await?;
            Ok(operation.phase())
        })
    }

    /// What this handle knows.
    pub fn summary(&self) -> JsValue {
        shape::summary(&self.0)
    }

    /// The outcome, if it ended.
    pub fn outcome(&self) -> JsValue {
        match self.0.outcome() {
            Ok(Some(outcome)) => shape::outcome(&outcome),
            _ => JsValue::UNDEFINED,
        }
    }
}
