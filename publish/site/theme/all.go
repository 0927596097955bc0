package theme

// All returns all themes: one line and one folder for each.
func All() []Theme {
	return []Theme{
		read("default", "quiet and readable, with a blue accent"),
		read("paper", "a book page: serif text on warm paper"),
		read("terminal", "a console: one typeface of one width, prompts before headings"),
	}
}
