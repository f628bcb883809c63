//! The border to the page's scripts: plain values as bytes, jobs that the page does, and the tasks that
//! wait for them.
//!
//! Bindings for promises, closures and objects would be a fifth of what a page downloads. Here all that
//! passes is a list of plain values, and a script says by a number which job is done. For that it has to
//! know the module: a page of one's own calls `samekey_connect(await init())`, both from what
//! wasm-bindgen generates, before anything else.

use super::BoxFuture;
pub use super::values::{Pack, Values};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen(module = "/src/seam/border.js")]
extern "C" {
    fn take(job: u32) -> Option<Vec<u8>>;
    fn note(job: u32);

    // For scripts that import the generated module: they answer in the same way.
    #[wasm_bindgen(reexport = "samekey_connect")]
    fn connect(exports: &JsValue);
    #[wasm_bindgen(reexport = "samekey_pack")]
    fn pack(values: &JsValue);
    #[wasm_bindgen(reexport = "samekey_unpack")]
    fn unpack(bytes: &JsValue);
    #[wasm_bindgen(reexport = "samekey_asking")]
    fn asking(perform: &JsValue);
}

/// Work of the page, by the number that its script gave it. Dropped before its end, it is stopped.
#[derive(Debug)]
pub struct Job(u32);

impl Job {
    /// The job of this number.
    #[must_use]
    pub fn number(number: u32) -> Job {
        Job(number)
    }
}

impl Future for Job {
    /// The values of the answer.
    type Output = Vec<u8>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<u8>> {
        if let Some(answer) = take(self.0) {
            self.0 = 0;
            return Poll::Ready(answer);
        }
        drop(waiting(self.0, Some(context.waker().clone())));
        Poll::Pending
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.0 != 0 {
            drop(waiting(self.0, None));
            note(self.0);
        }
    }
}

type Task = BoxFuture<'static, ()>;

thread_local! {
    /// Whether tasks are being run, or the page was asked to have them run.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static LAST: Cell<u32> = const { Cell::new(0) };
    static TASKS: RefCell<Vec<(u32, Task)>> = const { RefCell::new(Vec::new()) };
    /// Tasks that can go on.
    static READY: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// Who waits for which job.
    static WAITING: RefCell<Vec<(u32, Waker)>> = const { RefCell::new(Vec::new()) };
}

/// Replaces who waits for a job; hands out who did until now.
fn waiting(job: u32, waker: Option<Waker>) -> Option<Waker> {
    WAITING.with_borrow_mut(|waiting| {
        let place = waiting.iter().position(|(known, _)| *known == job);
        let before = place.map(|place| waiting.swap_remove(place).1);
        if let Some(waker) = waker {
            waiting.push((job, waker));
        }
        before
    })
}

/// Wakes the task of this number.
struct Bell(u32);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        READY.with_borrow_mut(|ready| ready.push(self.0));
        if !RUNNING.replace(true) {
            note(0);
        }
    }
}

/// Runs a task, as long as the page lives.
pub fn spawn(task: Task) {
    let number = LAST.get() + 1;
    LAST.set(number);
    TASKS.with_borrow_mut(|tasks| tasks.push((number, task)));
    Arc::new(Bell(number)).wake();
}

/// For the page's script: this job is done (0: none is), and tasks may go on.
#[wasm_bindgen]
pub fn samekey_run(job: u32) {
    RUNNING.set(true);
    if let Some(waker) = waiting(job, None) {
        waker.wake();
    }
    while let Some(number) =
        READY.with_borrow_mut(|ready| (!ready.is_empty()).then(|| ready.remove(0)))
    {
        // Out of the list meanwhile: a task may start others.
        let task = TASKS.with_borrow_mut(|tasks| {
            let place = tasks.iter().position(|(known, _)| *known == number)?;
            Some(tasks.swap_remove(place).1)
        });
        let Some(mut task) = task else { continue };
        let waker = Waker::from(Arc::new(Bell(number)));
        if task
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            TASKS.with_borrow_mut(|tasks| tasks.push((number, task)));
        }
    }
    RUNNING.set(false);
}
