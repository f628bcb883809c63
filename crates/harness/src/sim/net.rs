//! The network between programs and servers, as samekey's transport.

use super::config::Fault;
use super::monitor::Hint;
use super::world::{Later, Occasion, Reply, Shared, World, lock};
use crate::planted;
use samekey::machine::{Permit, Probe};
use samekey::seam::BoxFuture;
use samekey::transport::Transport;
use samekey::{Content, Failure, FailureKind, Headers, Response, Sent};
use samekey_mock::answer::Answer;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// Where an attempt's end will be heard of.
pub(crate) type Call = Later<Result<Response, Failure>>;

/// A request on its way.
pub(crate) struct Packet {
    pub(crate) server: usize,
    pub(crate) process: usize,
    pub(crate) key: Box<str>,
    pub(crate) tenant: Box<str>,
    pub(crate) deed: usize,
    pub(crate) amount: u64,
    pub(crate) digest: u64,
    /// When it left.
    pub(crate) sent: u64,
    pub(crate) call: Call,
}

impl Packet {
    pub(crate) fn copy(&self) -> Packet {
        Packet {
            key: self.key.clone(),
            tenant: self.tenant.clone(),
            call: self.call.share(),
            ..*self
        }
    }
}

/// Where an answer breaks off.
enum Cut {
    Head,
    Body,
    End,
}

/// One program's way out.
pub(crate) struct SimTransport {
    pub(crate) world: Shared,
    pub(crate) process: usize,
}

/// Waits for the end of an attempt; tells the monitor when nobody waits any more.
struct Flight {
    world: Shared,
    process: usize,
    key: Box<str>,
    call: Call,
}

impl Future for Flight {
    type Output = Result<Response, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.call).poll(cx)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // Nobody listens any more.
        lock(&self.call.0).known = true;
        lock(&self.world).monitor.landed(&self.key, self.process);
    }
}

/// Waits for the answer to a question.
struct Question(Call);

impl Future for Question {
    type Output = Result<Response, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // Nobody listens any more.
        lock(&self.0.0).known = true;
    }
}

impl Transport for SimTransport {
    fn send(&self, permit: Permit) -> BoxFuture<'_, Result<Response, Failure>> {
        let call = Call::new();
        let key = lock(&self.world).send(self.process, &permit, &call);
        Box::pin(Flight {
            world: self.world.clone(),
            process: self.process,
            key,
            call,
        })
    }

    fn probe(&self, probe: Probe) -> BoxFuture<'_, Result<Response, Failure>> {
        let call = Call::new();
        lock(&self.world).ask(self.process, &probe, &call);
        Box::pin(Question(call))
    }
}

/// A number behind `"name":` in a body.
fn number(body: &[u8], name: &str) -> u64 {
    let text = str::from_utf8(body).unwrap_or_default();
    let digits = text.split(name).nth(1).unwrap_or_default();
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// FNV-1a.
pub(crate) fn digest(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in *part {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = hash.wrapping_mul(31);
    }
    hash
}

const MOVED: &str = "/moved/deeds";

fn packet(process: usize, permit: &Permit, call: &Call) -> Packet {
    let (mut key, mut tenant) = ("", "");
    // Another place of the same server is still the same request.
    let url = permit.url().replace(MOVED, "/deeds");
    let mut lines = digest(&[permit.method().as_str().as_bytes(), url.as_bytes()]);
    for (name, value) in permit.headers() {
        if name.eq_ignore_ascii_case("authorization") {
            tenant = value;
            continue;
        }
        if name.eq_ignore_ascii_case("idempotency-key") {
            key = value.trim_matches('"');
        }
        lines ^= digest(&[name.as_bytes(), value.as_bytes()]);
    }
    let body = permit.body();
    Packet {
        server: usize::try_from(number(permit.url().as_bytes(), "https://s")).unwrap_or(0),
        process,
        key: key.into(),
        tenant: tenant.into(),
        deed: usize::try_from(number(body, "\"deed\":")).unwrap_or(0),
        amount: number(body, "\"amount\":"),
        digest: lines ^ digest(&[body]),
        sent: 0,
        call: call.share(),
    }
}

impl World {
    /// A program asks what became of what the server took on.
    fn ask(&mut self, process: usize, probe: &Probe, call: &Call) {
        let key = probe.url().rsplit('/').next().unwrap_or_default();
        let tenant = probe
            .headers()
            .find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let packet = Packet {
            server: usize::try_from(number(probe.url().as_bytes(), "https://s")).unwrap_or(0),
            process,
            key: key.into(),
            tenant: tenant.map_or("", |(_, value)| value).into(),
            deed: 0,
            amount: 0,
            digest: 0,
            sent: self.now,
            call: call.share(),
        };
        if !self.step(process) {
            return;
        }
        self.monitor.counters.polls += 1;
        let timeout = u64::try_from(probe.timeout().as_millis()).unwrap_or(u64::MAX);
        let lost = Failure::new(FailureKind::Timeout, Sent::Maybe, "no answer in time");
        self.end(&packet, timeout.max(1), lost);
        if !self.servers[packet.server].up || self.has(Fault::LoseRequest) {
            return;
        }
        let way = self.rng.below(200);
        let answer = if self.has(Fault::Gateway) {
            let status = self.rng.pick(&[401, 403, 404, 429, 502, 503]);
            Answer::new(status)
        } else {
            self.found(&packet)
        };
        self.reply_after(packet, answer, way);
    }

    fn send(&mut self, process: usize, permit: &Permit, call: &Call) -> Box<str> {
        let mut packet = packet(process, permit, call);
        packet.sent = self.now;
        if self.config.profile == "none" {
            // Nothing on the wire names the operation but its body.
            packet.key = self.monitor.latest_key(packet.deed).unwrap_or_default();
        }
        let key = packet.key.clone();
        if !self.step(process) {
            return key;
        }
        let timeout = u64::try_from(permit.timeout().as_millis()).unwrap_or(u64::MAX);
        self.note(
            &[1, process as u64, packet.deed as u64, packet.digest],
            || {
                format!(
                    "p{process} sends deed {} attempt {} key {key:.8}",
                    packet.deed,
                    permit.attempt()
                )
            },
        );
        let server = &self.servers[packet.server.min(self.servers.len() - 1)];
        let (up, hangs) = (server.up, server.hangs);
        if (!up && !hangs) || self.has(Fault::Refuse) {
            self.watch_send(&packet, permit, false);
            let wait = self.rng.below(200);
            self.end(
                &packet,
                wait,
                Failure::new(FailureKind::Connect, Sent::No, "nobody listens"),
            );
            return key;
        }
        let dialling = self.rng.below(300);
        let host = self.processes[process].host;
        let leaves = self.clock(host).monotonic + Duration::from_millis(dialling);
        if leaves > permit.not_after() {
            self.watch_send(&packet, permit, false);
            let late = Failure::new(FailureKind::WindowClosed, Sent::No, "too late to leave");
            self.end(&packet, dialling, late);
            return key;
        }
        self.watch_send(&packet, permit, true);
        if planted::is(25) {
            self.watch_send(&packet, permit, true);
            self.after(dialling, Occasion::Arrive(Box::new(packet.copy())));
        }
        let lost = Failure::new(FailureKind::Timeout, Sent::Maybe, "no answer in time");
        self.end(&packet, timeout.max(1), lost);
        self.travel(packet, dialling, up);
        key
    }

    /// What becomes of a request that has left.
    fn travel(&mut self, packet: Packet, dialling: u64, up: bool) {
        if !up || self.has(Fault::LoseRequest) {
            if self.rng.chance(5_000) {
                self.monitor.counters.cut_requests += 1;
                let wait = self.rng.below(2_000);
                let reset = Failure::new(FailureKind::Reset, Sent::Maybe, "the connection broke");
                self.end(&packet, wait, reset);
            }
            return;
        }
        if self.has(Fault::Portal) {
            return self.portal(packet, dialling);
        }
        if self.has(Fault::Moved) {
            self.monitor.counters.moved += 1;
            let status = self.rng.pick(&[307, 308]);
            let answer = Answer::new(status).header("location", MOVED);
            return self.reply_after(packet, answer, dialling);
        }
        if self.has(Fault::Gateway) {
            return self.gateway(packet, dialling);
        }
        let slow = self.has(Fault::Slow);
        let most = if slow { 60_000 } else { 120 };
        let way = dialling + self.rng.below(most);
        if self.has(Fault::Duplicate) {
            self.monitor.counters.duplicates += 1;
            let again = way + self.rng.below(20_000);
            self.after(again, Occasion::Arrive(Box::new(packet.copy())));
        }
        self.after(way, Occasion::Arrive(Box::new(packet)));
    }

    /// A gateway answers in the server's place; some let the request through all the same.
    fn gateway(&mut self, packet: Packet, dialling: u64) {
        let status = self.rng.pick(&[
            401, 403, 404, 408, 421, 425, 429, 429, 502, 503, 503, 504, 501,
        ]);
        let mut answer = Answer::new(status);
        if matches!(status, 429 | 503) && self.rng.chance(7_000) {
            let wait = self.rng.pick(&[1, 2, 5, 20, 45, 90]);
            answer = answer.header("retry-after", &wait.to_string());
        }
        if matches!(status, 502 | 504 | 408) && self.rng.chance(5_000) {
            // It reached the server, and only the answer was given up on.
            let nobody = Call::new();
            lock(&nobody.0).known = true;
            let copy = Packet {
                call: nobody,
                ..packet.copy()
            };
            let way = dialling + self.rng.below(30_000);
            self.after(way, Occasion::Arrive(Box::new(copy)));
        }
        self.monitor.counters.gateway += 1;
        self.reply_after(packet, answer, dialling);
    }

    fn portal(&mut self, packet: Packet, dialling: u64) {
        let answer = match self.rng.below(3) {
            0 => Answer::new(200)
                .header("content-type", "text/html")
                .body("<html>log in</html>"),
            1 => Answer::new(307).header("location", "https://elsewhere.example/deeds"),
            _ => Answer::new(302).header("location", "https://elsewhere.example/login"),
        };
        self.monitor.counters.portals += 1;
        self.reply_after(packet, answer, dialling);
    }

    pub(crate) fn reply(&mut self, packet: Packet, answer: Answer) {
        self.reply_after(packet, answer, 0);
    }

    fn reply_after(&mut self, packet: Packet, answer: Answer, already: u64) {
        if self.has(Fault::LoseReply) {
            self.monitor.counters.lost_replies += 1;
            return;
        }
        let mut headers = Headers::new();
        for (name, value) in &answer.headers {
            let _ = headers.push(name, value);
        }
        let slow = self.has(Fault::Slow);
        let wait = already + self.rng.below(if slow { 40_000 } else { 100 });
        let mut response = Response::new(answer.status, headers, answer.body);
        if self.has(Fault::CutReply) {
            match self.cut(&response) {
                Cut::Head => {
                    let reset = Failure::new(FailureKind::Reset, Sent::Maybe, "cut in the head");
                    return self.end(&packet, wait, reset);
                }
                Cut::Body => response.content = Content::Lost,
                Cut::End => {}
            }
        }
        self.after(
            wait,
            Occasion::Reply(Box::new(Reply {
                call: packet.call,
                result: Ok(response),
                from_server: true,
                key: packet.key,
                process: packet.process,
            })),
        );
    }

    /// An answer is cut after so many bytes: in its head, in its body, or when all was there.
    fn cut(&mut self, response: &Response) -> Cut {
        let lines = response.headers.iter();
        let head: usize = 19
            + lines
                .map(|(name, value)| name.len() + value.len() + 4)
                .sum::<usize>();
        let body = match &response.content {
            Content::Whole(bytes) => bytes.len(),
            _ => 0,
        };
        // Heads are longer than bodies here, and a cut body is the harder case.
        let from = if self.rng.chance(5_000) { head } else { 0 };
        let at = from as u64 + self.rng.below((head + body - from) as u64 + 1);
        if at < head as u64 {
            self.monitor.counters.cut_heads += 1;
            return Cut::Head;
        }
        if at == (head + body) as u64 {
            return Cut::End;
        }
        self.monitor.counters.cut_bodies += 1;
        Cut::Body
    }

    fn end(&mut self, packet: &Packet, wait: u64, failure: Failure) {
        self.after(
            wait,
            Occasion::Reply(Box::new(Reply {
                call: packet.call.share(),
                result: Err(failure),
                from_server: false,
                key: packet.key.clone(),
                process: packet.process,
            })),
        );
    }

    /// An answer or a timeout reaches whoever waits, if anybody still does.
    pub(crate) fn heard(&mut self, reply: Reply) {
        let hint = match &reply.result {
            Ok(response) => response
                .headers
                .get("retry-after")
                .and_then(|s| s.parse::<u64>().ok()),
            Err(_) => None,
        };
        if let Ok(response) = &reply.result
            && matches!(response.status, 307 | 308)
        {
            self.monitor.sent_on(&reply.key);
        }
        let host = self.processes[reply.process].host;
        let clock = self.clock(host);
        let told = reply.call.resolve(reply.result);
        if told && reply.from_server {
            self.monitor.answered(&reply.key);
        }
        if told && let Some(seconds) = hint {
            let key = reply.key.clone();
            self.note(&[7, seconds], || {
                format!("key {key:.8} is asked to wait {seconds} s")
            });
            let hint = Hint {
                by: reply.process,
                at: clock,
                seconds,
                noted: false,
                since: self.processes[reply.process].started_at,
            };
            self.monitor.hint(&reply.key, hint);
        }
        if !told && reply.from_server {
            self.monitor.counters.late_replies += 1;
        }
    }
}
