//! The border to the page's scripts: plain values as bytes, jobs that the page does, and the tasks that
//! wait for them.
//!
//! Bindings for promises, closures and objects would be a fifth of what a page downloads. Here all that
//! passes is a list of plain values, and a script says by a number which job is done. For that it has to
//! know the module: a page of one's own calls `samekey_connect(await init())`, both from what
//! wasm-bindgen generates, before anything else.

use super::BoxFuture;
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

    fn sized(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
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
