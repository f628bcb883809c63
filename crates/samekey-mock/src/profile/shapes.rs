//! The bodies and headers of each provider. The shop answers in the mock's own words; these are
//! translated on the way out, so that what is stored does not depend on the profile.

use super::Profile;
use crate::answer::Answer;
use serde_json::{Value, json};

/// An error in a provider's own form.
#[derive(Clone, Copy)]
struct Words {
    status: u16,
    /// Type, category or name.
    kind: &'static str,
    /// Code, issue or reason.
    code: &'static str,
}

const fn words(status: u16, kind: &'static str, code: &'static str) -> Words {
    Words { status, kind, code }
}

impl Profile {
    /// A duplicate of work in progress.
    pub fn in_flight(self) -> Answer {
        let detail = "A request with this key is still being worked on.";
        let own = |title: &str| Answer::problem(409, "in-flight", title, detail);
        match self {
            Self::Default => own("A request with this key is in flight"),
            Self::IetfDraft => own("A request for this Idempotency-Key is outstanding"),
            Self::Stripe => self
                .error(
                    words(409, "invalid_request_error", "idempotency_key_in_use"),
                    detail,
                )
                .header("stripe-should-retry", "true"),
            Self::Adyen => self
                .error(words(409, "validation", "704"), detail)
                .header("transient-error", "true"),
            Self::Paypal => self.error(
                words(409, "RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS"),
                detail,
            ),
            Self::Square => self.error(words(409, "API_ERROR", "CONFLICT"), detail),
            Self::Gocardless => self.error(
                words(409, "invalid_state", "idempotent_creation_conflict"),
                detail,
            ),
        }
    }

    /// The key was used with another request.
    pub fn mismatch(self) -> Answer {
        let detail = "This key was used before with a different request.";
        let own = |title: &str| Answer::problem(422, "key-reused", title, detail);
        match self {
            Self::Default => own("The key belongs to another request"),
            Self::IetfDraft => own("This Idempotency-Key is already used"),
            Self::Stripe => self.error(words(400, "idempotency_error", ""), detail),
            Self::Adyen => self.error(words(422, "validation", "702"), detail),
            Self::Paypal => self.error(
                words(422, "UNPROCESSABLE_ENTITY", "DUPLICATE_REQUEST_ID"),
                detail,
            ),
            Self::Square => self.error(
                words(400, "INVALID_REQUEST_ERROR", "IDEMPOTENCY_KEY_REUSED"),
                detail,
            ),
            Self::Gocardless => self.error(
                words(409, "invalid_state", "idempotent_creation_conflict"),
                detail,
            ),
        }
    }

    /// No key, or one that cannot be accepted.
    pub fn bad_key(self, missing: bool, detail: &str) -> Answer {
        match self {
            Self::Default if missing => {
                Answer::problem(400, "key-missing", "An idempotency key is required", detail)
            }
            Self::IetfDraft if missing => {
                Answer::problem(400, "key-missing", "The Idempotency-Key is missing", detail)
            }
            Self::Default | Self::IetfDraft => Answer::problem(
                400,
                "key-invalid",
                "The Idempotency-Key is not valid",
                detail,
            ),
            Self::Stripe => self.error(words(400, "invalid_request_error", ""), detail),
            Self::Adyen => self.error(words(400, "validation", "701"), detail),
            Self::Paypal => self.error(
                words(400, "INVALID_REQUEST", "INVALID_PARAMETER_VALUE"),
                detail,
            ),
            Self::Square => self.error(words(400, "INVALID_REQUEST_ERROR", "BAD_REQUEST"), detail),
            Self::Gocardless => self.error(words(400, "invalid_api_usage", "bad_request"), detail),
        }
    }

    /// The store of keys does not answer: nothing was done.
    pub fn store_down(self) -> Answer {
        let detail = "The key store does not answer; nothing was done.";
        match self {
            Self::Default | Self::IetfDraft => {
                Answer::problem(503, "store-down", "Keys cannot be checked now", detail)
            }
            Self::Stripe => self
                .error(words(503, "api_error", ""), detail)
                .header("stripe-should-retry", "true"),
            Self::Adyen => self
                .error(words(503, "internal", "703"), detail)
                .header("transient-error", "true"),
            Self::Paypal => self.error(
                words(503, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE"),
                detail,
            ),
            Self::Square => self.error(words(503, "API_ERROR", "SERVICE_UNAVAILABLE"), detail),
            Self::Gocardless => self.error(words(503, "gocardless", "internal_error"), detail),
        }
    }

    /// A repeat where the provider answers with the id of what exists.
    pub fn exists(self, id: &str) -> Answer {
        let detail = "Something was created with this key before.";
        let words = words(409, "invalid_state", "idempotent_creation_conflict");
        let answer = self.error(words, detail);
        let mut body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        body["error"]["errors"][0]["links"] = json!({ "conflicting_resource_id": id });
        answer.body(body.to_string())
    }

    fn error(self, words: Words, text: &str) -> Answer {
        let Words { status, kind, code } = words;
        let body = match self {
            Self::Default | Self::IetfDraft => return Answer::problem(status, code, kind, text),
            Self::Stripe if code.is_empty() => {
                json!({ "error": { "type": kind, "message": text } })
            }
            Self::Stripe => json!({ "error": { "type": kind, "code": code, "message": text } }),
            Self::Adyen => json!({
                "status": status, "errorCode": code, "message": text, "errorType": kind,
                "pspReference": "MOCK000000000000",
            }),
            Self::Paypal => json!({
                "name": kind, "message": text, "debug_id": "mock000000000",
                "details": [{ "issue": code, "description": text }],
            }),
            Self::Square => {
                json!({ "errors": [{ "category": kind, "code": code, "detail": text }] })
            }
            Self::Gocardless => json!({
                "error": {
                    "type": kind, "code": status, "message": text,
                    "errors": [{ "reason": code, "message": text }],
                },
            }),
        };
        Answer::json(status, &body)
    }

    /// Says in this provider's words what the shop said in the mock's own.
    pub(crate) fn speak(self, answer: Answer, key: Option<&str>, request: u64) -> Answer {
        if matches!(self, Self::Default | Self::IetfDraft) {
            return answer;
        }
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        let problem = body["type"]
            .as_str()
            .and_then(|t| t.strip_prefix(crate::answer::PROBLEMS));
        let spoken = match (problem, body["id"].as_str()) {
            (Some(kind), _) => self.translate(kind, &body, &answer),
            (None, Some(id)) if answer.status < 300 => self.present(id, &body, &answer),
            _ => answer,
        };
        match (self, key) {
            (Self::Stripe, Some(key)) => spoken
                .header("request-id", &format!("req_{request:06}"))
                .header("idempotency-key", key),
            (Self::Adyen, Some(key)) if spoken.status < 300 => {
                spoken.header("idempotency-key", key)
            }
            (Self::Paypal, _) => spoken.header("paypal-debug-id", &format!("mock{request:09}")),
            _ => spoken,
        }
    }

    /// An error of the handler, or of the limits before it.
    fn translate(self, kind: &str, body: &Value, answer: &Answer) -> Answer {
        let text = body["detail"].as_str().unwrap_or("");
        let error = self.error(self.words_for(kind, answer.status), text);
        let replayed = answer.get("idempotent-replayed").is_some();
        let mut spoken = error;
        if replayed {
            spoken = spoken.header("idempotent-replayed", "true");
        }
        match self {
            Self::Stripe if replayed => spoken.header("stripe-should-retry", "false"),
            Self::Adyen if kind == "invalid" => spoken.header("transient-error", "false"),
            Self::Gocardless if kind == "quota-exceeded" => {
                spoken.header("retry-after", answer.get("retry-after").unwrap_or("60"))
            }
            _ => spoken,
        }
    }

    fn words_for(self, kind: &str, status: u16) -> Words {
        match (self, kind) {
            (Self::Stripe, "declined") => words(402, "card_error", "card_declined"),
            (Self::Stripe, "invalid") => words(400, "invalid_request_error", "parameter_missing"),
            (Self::Stripe, "quota-exceeded") => words(429, "invalid_request_error", "rate_limit"),
            (Self::Stripe, "handler") => words(500, "api_error", ""),
            (Self::Stripe, _) => words(status, "invalid_request_error", "resource_missing"),
            (Self::Adyen, "handler") => words(500, "internal", "000"),
            (Self::Adyen, "quota-exceeded") => words(429, "security", "029"),
            (Self::Adyen, _) => words(422, "validation", "130"),
            (Self::Paypal, "quota-exceeded") => {
                words(429, "RATE_LIMIT_REACHED", "RATE_LIMIT_REACHED")
            }
            (Self::Paypal, "handler") => {
                words(500, "INTERNAL_SERVER_ERROR", "INTERNAL_SERVICE_ERROR")
            }
            (Self::Paypal, "out-of-stock") => {
                words(409, "RESOURCE_CONFLICT", "ORDER_STATE_CHANGED")
            }
            (Self::Paypal, "currency") => {
                words(422, "UNPROCESSABLE_ENTITY", "CURRENCY_NOT_SUPPORTED")
            }
            (Self::Paypal, "declined") => words(422, "UNPROCESSABLE_ENTITY", "INSTRUMENT_DECLINED"),
            (Self::Paypal, _) => words(422, "UNPROCESSABLE_ENTITY", "INVALID_PARAMETER_VALUE"),
            (Self::Square, "declined") => words(402, "PAYMENT_METHOD_ERROR", "GENERIC_DECLINE"),
            (Self::Square, "quota-exceeded") => words(429, "RATE_LIMIT_ERROR", "RATE_LIMITED"),
            (Self::Square, "handler") => words(500, "API_ERROR", "INTERNAL_SERVER_ERROR"),
            (Self::Square, _) => words(400, "INVALID_REQUEST_ERROR", "MISSING_REQUIRED_PARAMETER"),
            (Self::Gocardless, "quota-exceeded") => {
                words(429, "invalid_api_usage", "rate_limit_exceeded")
            }
            (Self::Gocardless, "handler") => words(500, "gocardless", "internal_error"),
            (Self::Gocardless, _) => words(422, "validation_failed", "invalid_amount"),
            (Self::Default | Self::IetfDraft, _) => words(status, "", ""),
        }
    }

    /// Something the shop created or shows.
    fn present(self, id: &str, body: &Value, answer: &Answer) -> Answer {
        let noun = match id.split('_').next() {
            Some("pay") => "payment",
            Some("ref") => "refund",
            _ => "order",
        };
        let mut object = body.clone();
        let (status, shown) = match self {
            Self::Stripe => {
                object["object"] = json!(if noun == "payment" {
                    "payment_intent"
                } else {
                    noun
                });
                (200, object)
            }
            Self::Adyen => (
                200,
                json!({ "pspReference": id, "resultCode": "Authorised" }),
            ),
            Self::Paypal => {
                let state = body["status"]
                    .as_str()
                    .unwrap_or("created")
                    .to_ascii_uppercase();
                object["status"] = json!(if state == "SUCCEEDED" {
                    "CREATED"
                } else {
                    &state
                });
                (answer.status, object)
            }
            Self::Square => {
                object["status"] = json!("COMPLETED");
                (200, json!({ noun: object }))
            }
            Self::Gocardless => (answer.status, json!({ format!("{noun}s"): object })),
            Self::Default | Self::IetfDraft => (answer.status, object),
        };
        let kept = answer
            .headers
            .iter()
            .filter(|(name, _)| name != "content-type");
        let mut spoken = Answer::json(status, &shown);
        spoken.headers.extend(kept.cloned());
        spoken
    }
}
