//! Bar charts as SVG, and a page of HTML that holds them; no fonts, scripts or styles from elsewhere.

use std::fmt::Write;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// What stands to the left of it.
    pub label: String,
    /// Its length; what is negative or no number is shown as 0.
    pub value: f64,
    /// Bars of one series have one colour.
    pub series: usize,
}

/// Bars under a heading, all in one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct BarChart {
    /// The heading.
    pub title: String,
    /// The unit of all values.
    pub unit: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

const WIDTH: usize = 860;
const LABEL_WIDTH: usize = 330;
const BAR_WIDTH: usize = 380;
const BAR_HEIGHT: usize = 18;
const ROW_HEIGHT: usize = 26;
const TITLE_HEIGHT: usize = 40;
/// Longer labels are cut.
const LABEL_LETTERS: usize = 46;
/// Colours that can be told apart when colours cannot be seen well (Okabe and Ito, 2008).
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#999999"];

/// Text that means itself in XML and HTML; control characters, which XML cannot hold, are left out.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars().filter(|letter| !letter.is_control() && !matches!(letter, '\u{fffe}' | '\u{ffff}')) {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= LABEL_LETTERS {
        return text.to_owned();
    }
    text.chars().take(LABEL_LETTERS - 1).chain(['…']).collect()
}

fn sound(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}

/// The charts below one another, each on its own scale from 0, as one SVG picture.
#[must_use]
pub fn svg(charts: &[BarChart]) -> String {
    let height: usize = charts.iter().map(|chart| TITLE_HEIGHT + ROW_HEIGHT * chart.bars.len()).sum::<usize>() + 20;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let mut y = 0;
    for chart in charts {
        y = draw(&mut text, chart, y);
    }
    text + "</svg>\n"
}

/// Draws one chart from `top` on and gives where the next one begins.
fn draw(text: &mut String, chart: &BarChart, top: usize) -> usize {
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        text,
        "<text x=\"10\" y=\"{}\" font-size=\"16\" font-weight=\"bold\">{} ({})</text>",
        top + 28,
        escaped(&chart.title),
        escaped(&chart.unit)
    );
    let longest = chart.bars.iter().map(|bar| sound(bar.value)).fold(0.0, f64::max);
    let mut y = top + TITLE_HEIGHT;
    for bar in &chart.bars {
        let value = sound(bar.value);
        let length = if longest > 0.0 { value / longest * BAR_WIDTH as f64 } else { 0.0 };
        let colour = COLOURS[bar.series % COLOURS.len()];
        let (label, full) = (escaped(&shortened(&bar.label)), escaped(&bar.label));
        let base = y + 14;
        let _ = writeln!(text, "<g><title>{full}: {value:.0} {}</title>", escaped(&chart.unit));
        let _ = writeln!(text, "<text x=\"{}\" y=\"{base}\" text-anchor=\"end\">{label}</text>", LABEL_WIDTH - 8);
        let _ = writeln!(
            text,
            "<rect x=\"{LABEL_WIDTH}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" fill=\"{colour}\"/>"
        );
        let _ = writeln!(text, "<text x=\"{:.1}\" y=\"{base}\">{value:.0}</text></g>", LABEL_WIDTH as f64 + length + 6.0);
        y += ROW_HEIGHT;
    }
    y
}

/// A page with a heading, paragraphs, the charts, and a table as plain text.
#[must_use]
pub fn html_page(title: &str, paragraphs: &[String], charts: &[BarChart], table: &str) -> String {
    let title = escaped(title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>body{{font-family:sans-serif;max-width:60em;margin:2em auto}}\
         pre{{overflow-x:auto}}svg{{max-width:100%;height:auto}}</style>\n\
         </head>\n<body>\n<h1>{title}</h1>\n"
    );
    for paragraph in paragraphs {
        let _ = writeln!(page, "<p>{}</p>", escaped(paragraph));
    }
    page += &svg(charts);
    page += "<pre>\n";
    for line in table.lines() {
        let _ = writeln!(page, "{}", escaped(line));
    }
    page + "</pre>\n</body>\n</html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> BarChart {
        let bar = |label: &str, value, series| Bar { label: label.to_owned(), value, series };
        let bars = vec![bar("EPYC 7601", 20726.0, 0), bar("a <b> & \"c\"", 41452.0, 1), bar("none\u{1}", f64::NAN, 2)];
        BarChart { title: "gen() < xor()".to_owned(), unit: "MB/s".to_owned(), bars }
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let text = svg(&[chart()]);
        assert!(text.contains("width=\"190.0\" height=\"18\""), "half of 380: {text}");
        assert!(text.contains("width=\"380.0\" height=\"18\"") && text.contains("width=\"0.0\" height=\"18\""));
        assert!(text.contains(">20726</text>") && text.contains(">41452</text>"));
    }

    #[test]
    fn text_from_outside_stays_text() {
        for text in [svg(&[chart()]), html_page("<script>", &["1 < 2".to_owned()], &[chart()], "a  <b>\nc & d")] {
            assert!(text.contains("a &lt;b&gt; &amp; &quot;c&quot;") && !text.contains("<b>") && !text.contains("<script>"));
            assert!(!text.contains('\u{1}'));
            for tag in ["svg", "g", "text", "title"] {
                let count = |what: &str| text.matches(what).count();
                let opened = count(&format!("<{tag} ")) + count(&format!("<{tag}>"));
                assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
            }
        }
    }

    #[test]
    fn nothing_to_draw_is_an_empty_picture() {
        assert!(svg(&[]).contains("height=\"20\""));
    }
}
