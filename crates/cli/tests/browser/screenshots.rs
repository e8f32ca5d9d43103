//! Pictures of each page, to look at: in `target/tmp/dashboard`.

use crate::driver::Browser;
use crate::pages::{LINKED, PAGES};
use crate::places::Place;
use crate::site::{Mount, Site};

const WIDTHS: [u32; 2] = [390, 1440];

pub(crate) fn each_page(browser: &Browser<'_>, place: &Place) {
    let mut site = Site::start(place, Mount::Root);
    site.fill();
    let pages = PAGES.map(|(_, path, _)| (path, path));
    for width in WIDTHS {
        browser.set_width(width);
        for scheme in ["light", "dark"] {
            browser.set_scheme(scheme);
            for (name, path) in pages.iter().chain(&LINKED) {
                browser.open(&format!("{}{path}", site.url));
                let wide: u32 = browser.run("return document.documentElement.scrollWidth");
                assert!(wide <= width, "{path} is {wide} pixels wide, not {width}");
                browser.picture(&format!("{name}-{width}-{scheme}.png"));
            }
        }
    }
}
