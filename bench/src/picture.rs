//! The picture that the README shows: throughput share and added latency against callers.

use serde_json::Value;
use std::fmt::Write as _;

const CALLERS: [u64; 4] = [1, 16, 64, 256];
/// The variants that are drawn: name in the results, name in the picture, class of its colour.
const DRAWN: [(&str, &str, &str); 3] = [
    ("samekey", "samekey", "a"),
    ("middleware", "reqwest-retry (keeps nothing)", "b"),
    ("effectum", "effectum", "c"),
];

const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#1f2328}.t{font-weight:600;font-size:15px}.s{fill:#59636e}
.g{stroke:#d1d9e0}.l{fill:none;stroke-width:2.5;stroke-linejoin:round}
.a{stroke:#0969da}.b{stroke:#8250df}.c{stroke:#bc4c00}circle.a{fill:#0969da}circle.b{fill:#8250df}
circle.c{fill:#bc4c00}@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.s{fill:#9198a1}
.g{stroke:#3d444d}.a{stroke:#4493f8}.b{stroke:#ab7df8}.c{stroke:#f0883e}circle.a{fill:#4493f8}
circle.b{fill:#ab7df8}circle.c{fill:#f0883e}}";

/// One panel's place and scale.
struct Panel {
    left: f64,
    title: &'static str,
    most: f64,
    step: f64,
    unit: &'static str,
}

const TOP: f64 = 70.0;
const HEIGHT: f64 = 210.0;
const WIDTH: f64 = 320.0;

/// `None` where a series is missing: half a picture would mislead.
pub(crate) fn draw(results: &Value) -> Option<String> {
    let of = |callers: u64, variant: &str, what: &str| -> Option<f64> {
        let name = format!("instant_{callers}");
        let mut all = results["series"].as_array()?.iter();
        let series = all.find(|series| series["name"] == name.as_str())?;
        series["variants"][variant][what].as_f64()
    };
    let mut shares = Vec::new();
    let mut added = Vec::new();
    for (variant, title, class) in DRAWN {
        let share =
            |callers| Some(of(callers, variant, "ops_per_s")? / of(callers, "bare", "ops_per_s")?);
        let late = |callers| {
            let more = of(callers, variant, "p50_us")? - of(callers, "bare", "p50_us")?;
            Some(more.max(0.0) / 1000.0)
        };
        let line = |value: &dyn Fn(u64) -> Option<f64>| -> Option<Vec<f64>> {
            CALLERS.iter().map(|callers| value(*callers)).collect()
        };
        match (line(&share), line(&late)) {
            (Some(share), Some(late)) => {
                shares.push((title, class, share));
                added.push((title, class, late));
            }
            _ if variant == "samekey" => return None,
            _ => {}
        }
    }
    let highest = |lines: &[(&str, &str, Vec<f64>)]| {
        let all = lines.iter().flat_map(|(_, _, line)| line.iter().copied());
        all.fold(0.0, f64::max)
    };
    let (most, step) = scale(highest(&shares).max(1.0));
    let throughput = Panel {
        left: 60.0,
        title: "Throughput, bare reqwest = 1",
        most,
        step,
        unit: "",
    };
    let (most, step) = scale(highest(&added));
    let latency = Panel {
        left: 460.0,
        title: "Added to the median latency",
        most,
        step,
        unit: " ms",
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 360\" role=\"img\" \
         aria-label=\"Throughput share and added latency against callers\"><style>{STYLE}</style>\n"
    );
    throughput.draw(&mut svg, &shares);
    latency.draw(&mut svg, &added);
    legend(&mut svg, &shares);
    svg.push_str("</svg>\n");
    Some(svg)
}

/// A round top and the distance of the lines below it.
fn scale(highest: f64) -> (f64, f64) {
    let rough = (highest / 4.0).max(1e-6);
    let ten = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|step| step * ten)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    ((highest / step).ceil().max(1.0) * step, step)
}

impl Panel {
    fn x(&self, index: usize) -> f64 {
        self.left + 25.0 + index as f64 * (WIDTH - 50.0) / 3.0
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - value / self.most)
    }

    fn draw(&self, svg: &mut String, lines: &[(&str, &str, Vec<f64>)]) {
        let (left, right) = (self.left, self.left + WIDTH);
        let _ = writeln!(
            svg,
            "<text class=\"t\" x=\"{left}\" y=\"40\">{}</text>",
            self.title
        );
        let mut value = 0.0;
        while value <= self.most * 1.001 {
            let y = self.y(value);
            let label = (value * 100.0).round() / 100.0;
            let _ = writeln!(
                svg,
                "<path class=\"g\" d=\"M{left} {y:.1}H{right}\"/><text class=\"s\" x=\"{:.1}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{label}{}</text>",
                left - 8.0,
                y + 4.0,
                self.unit
            );
            value += self.step;
        }
        for (index, callers) in CALLERS.iter().enumerate() {
            let plural = if *callers == 1 { "caller" } else { "callers" };
            let _ = writeln!(
                svg,
                "<text class=\"s\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{callers} \
                 {plural}</text>",
                self.x(index),
                TOP + HEIGHT + 22.0
            );
        }
        for (_, class, line) in lines {
            let points: Vec<String> = line
                .iter()
                .enumerate()
                .map(|(index, value)| format!("{:.1} {:.1}", self.x(index), self.y(*value)))
                .collect();
            let _ = writeln!(
                svg,
                "<path class=\"l {class}\" d=\"M{}\"/>",
                points.join("L")
            );
            for (index, value) in line.iter().enumerate() {
                let (x, y) = (self.x(index), self.y(*value));
                let _ = writeln!(
                    svg,
                    "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
                );
            }
        }
    }
}

fn legend(svg: &mut String, lines: &[(&str, &str, Vec<f64>)]) {
    let mut x = 60.0;
    for (title, class, _) in lines {
        let _ = writeln!(
            svg,
            "<circle class=\"{class}\" cx=\"{x}\" cy=\"336\" r=\"5\"/><text x=\"{}\" y=\"340\">{title}</text>",
            x + 12.0
        );
        x += 45.0 + title.len() as f64 * 7.5;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn results(callers: &[u64]) -> Value {
        let series: Vec<Value> = callers
            .iter()
            .map(|callers| {
                json!({"name": format!("instant_{callers}"), "variants": {
                    "bare": {"ops_per_s": 1000.0, "p50_us": 100.0},
                    "samekey": {"ops_per_s": 500.0, "p50_us": 400.0},
                }})
            })
            .collect();
        json!({ "series": series })
    }

    #[test]
    fn a_picture_has_a_line_for_each_panel_and_fits_both_themes() {
        let svg = draw(&results(&CALLERS)).expect("a picture");
        assert_eq!(svg.matches("class=\"l a\"").count(), 2);
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn half_a_picture_is_not_drawn() {
        assert_eq!(draw(&results(&CALLERS[..3])), None);
    }

    #[test]
    fn a_scale_is_round_and_holds_everything() {
        assert_eq!(scale(1.0), (1.0, 0.25));
        let (most, step) = scale(43.0);
        assert!(
            most >= 43.0 && (most / step).fract().abs() < 1e-9,
            "{most} {step}"
        );
    }
}
