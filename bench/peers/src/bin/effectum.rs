//! effectum: the same POST as a job of a durable queue.
//!
//! A call lasts from the job's addition to the end of its handler. That the queue then writes down
//! that the job is done is not waited for, which is in the queue's favour.

use effectum::{Job, JobRunner, Queue, RunningJob, Worker};
use samekey_bench_gauge as gauge;
use samekey_bench_peers::{arguments, client, finish};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

type Waiting = Mutex<HashMap<u64, oneshot::Sender<Result<(), String>>>>;

#[derive(Debug)]
struct Shop {
    client: reqwest::Client,
    url: String,
    waiting: Waiting,
}

impl Shop {
    fn expect(&self, number: u64, done: oneshot::Sender<Result<(), String>>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(number, done);
    }

    fn take(&self, number: u64) -> Option<oneshot::Sender<Result<(), String>>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.remove(&number)
    }
}

/// The payload is the job's number, then the body.
async fn pay(job: RunningJob, shop: Arc<Shop>) -> Result<(), String> {
    let (number, body) = job.payload.split_at_checked(8).ok_or("a short payload")?;
    let number = u64::from_le_bytes(number.try_into().map_err(|_| "no number")?);
    let request = shop
        .client
        .post(&shop.url)
        .header("content-type", "application/json")
        .header("idempotency-key", job.id.to_string())
        .body(body.to_vec());
    let done = match request.send().await {
        Ok(answer) => finish(answer).await,
        Err(error) => Err(error.to_string()),
    };
    if let Some(waiting) = shop.take(number) {
        let _ = waiting.send(done.clone());
    }
    done
}

fn main() -> Result<(), String> {
    let (url, folder) = arguments()?;
    let runtime = gauge::runtime()?;
    let shop = Arc::new(Shop {
        client: runtime.block_on(async { client() })?,
        url,
        waiting: Mutex::default(),
    });
    let context = Arc::clone(&shop);
    let (queue, worker) = runtime.block_on(async move {
        let queue = Queue::new(&folder.join("effectum.db"))
            .await
            .map_err(|e| e.to_string())?;
        let job = JobRunner::builder("pay", pay).build();
        let worker = Worker::builder(&queue, context)
            .min_concurrency(256)
            .max_concurrency(512)
            .jobs([job])
            .build()
            .await
            .map_err(|e| e.to_string())?;
        Ok::<_, String>((Arc::new(queue), worker))
    })?;
    // It spawns tasks when it goes.
    let _within = runtime.enter();
    let body = gauge::body();
    let one = move |number: u64| {
        let mut payload = number.to_le_bytes().to_vec();
        payload.extend_from_slice(&body);
        let (queue, shop) = (Arc::clone(&queue), Arc::clone(&shop));
        async move {
            let (done, wait) = oneshot::channel();
            shop.expect(number, done);
            let job = Job::builder("pay").payload(payload);
            job.add_to(&queue).await.map_err(|e| e.to_string())?;
            wait.await.map_err(|e| e.to_string())?
        }
    };
    let served = gauge::serve(&runtime, one, gauge::unknown);
    drop(worker);
    served
}
