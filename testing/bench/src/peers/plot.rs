//! Pairs per second of all contenders, as a plot.

use anyhow::Context as _;
use plotters::prelude::*;

use super::contender::Contender;
use super::outcome::{Mode, Outcome};
use super::table::title;

/// The width of the whole plot.
const WIDTH: u32 = 960;

/// The height of one contender's bars.
const BAR: u32 = 26;

/// The height of a panel around its bars.
const AROUND: u32 = 74;

const OURS: RGBColor = RGBColor(183, 65, 14);
const OTHERS: RGBColor = RGBColor(96, 125, 139);

/// A panel for each store: a bar for 16 workers, and in it a darker one for one worker.
pub(super) fn svg(outcome: &Outcome) -> anyhow::Result<String> {
    let sites = outcome.sites();
    let heights: Vec<u32> = sites
        .iter()
        .map(|(store, _)| {
            AROUND + BAR * u32::try_from(outcome.contenders(store).len()).unwrap_or(1)
        })
        .collect();
    let mut text = String::new();
    {
        let height = heights.iter().sum::<u32>() + 30;
        let area = SVGBackend::with_string(&mut text, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE).map_err(drawn)?;
        let area = area
            .titled(
                "pairs of lock and unlock per second: 16 workers; inside the bar, 1 worker",
                ("sans-serif", 16),
            )
            .map_err(drawn)?;
        let mut rest = area;
        for (site, height) in sites.into_iter().zip(heights) {
            let (panel, below) = rest.split_vertically(height);
            draw(&panel, outcome, site).with_context(|| title(site))?;
            rest = below;
        }
        rest.present().map_err(drawn)?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(panel: &Area<'_>, outcome: &Outcome, site: (&str, bool)) -> anyhow::Result<()> {
    let contenders = outcome.contenders(site.0);
    let rate = |who, workers| {
        let cell = outcome.cell(site, who, Mode::free(workers));
        cell.map_or(0.0, |cell| cell.pairs_per_second)
    };
    let most = contenders
        .iter()
        .map(|who| rate(*who, 16).max(rate(*who, 1)))
        .fold(1.0, f64::max);
    let rows = contenders.len();
    let mut chart = ChartBuilder::on(panel)
        .caption(title(site), ("sans-serif", 15))
        .margin_right(60)
        .x_label_area_size(24)
        .y_label_area_size(190)
        .build_cartesian_2d(0.0..most, (0..rows).into_segmented())
        .map_err(drawn)?;
    // The first contender is on top.
    let of_row = |row: usize| contenders[rows - 1 - row.min(rows - 1)];
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .y_labels(rows)
        .y_label_formatter(&|segment| match segment {
            SegmentValue::CenterOf(row) => of_row(*row).title().replace(['*', '`'], ""),
            _ => String::new(),
        })
        .x_label_formatter(&|rate| format!("{rate:.0}"))
        .draw()
        .map_err(drawn)?;
    for row in 0..rows {
        let who = of_row(row);
        let color = if who == Contender::Ours { OURS } else { OTHERS };
        for (workers, shade, margin) in [(16, 0.45, 3), (1, 1.0, 9)] {
            let corners = [
                (0.0, SegmentValue::Exact(row)),
                (rate(who, workers), SegmentValue::Exact(row + 1)),
            ];
            let mut bar = Rectangle::new(corners, color.mix(shade).filled());
            bar.set_margin(margin, margin, 0, 0);
            chart.draw_series([bar]).map_err(drawn)?;
        }
        let label = format!("{:.0}", rate(who, 16));
        let place = (rate(who, 16), SegmentValue::CenterOf(row));
        let style = ("sans-serif", 12).into_font().color(&BLACK);
        let text = EmptyElement::at(place) + Text::new(label, (4, -6), style);
        chart.draw_series([text]).map_err(drawn)?;
    }
    Ok(())
}

/// Its errors borrow the drawing backend, so they are converted here.
fn drawn(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("the picture could not be drawn: {error}")
}
