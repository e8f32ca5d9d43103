//! The page shows the files as they are.

use std::fs;

use shedlock_documentation::root;

#[test]
fn the_page_shows_every_file_and_nothing_else() {
    let page = fs::read_to_string(root().join("docs/recipes.md")).unwrap();
    let mut shown = 0;
    for entry in fs::read_dir(root().join("docs/recipes")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            page.contains(&format!("\n{text}```\n")),
            "docs/recipes.md does not show {name} as it is; its text is:\n{text}"
        );
        assert!(
            page.contains(&format!("](recipes/{name})")),
            "no link to {name}"
        );
        shown += 1;
    }
    let fences = page.lines().filter(|line| line.starts_with("```")).count();
    assert_eq!(fences, 2 * shown, "every block of the page is a file");
}
