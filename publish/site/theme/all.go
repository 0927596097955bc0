package theme

// All returns all themes: one line and one folder for each.
func All() []Theme {
	return []Theme{
		readTheme("default", "quiet and readable, with a blue accent"),
		readTheme("academic", "a paper: serif type, numbered sections, justified text"),
		readTheme("amber", "an amber tube in the dark, honey in daylight"),
		readTheme("blueprint", "a drawing board: a fine grid, thin lines, technical lettering"),
		readTheme("brutal", "raw: thick borders, hard shadows, one loud yellow"),
		readTheme("candy", "pink and violet, round and soft"),
		readTheme("cards", "a grid of cards on a wide page"),
		readTheme("clear", "the largest contrast, large type, thick lines under links"),
		readTheme("daemon", "red and charcoal, with double lines"),
		readTheme("forest", "moss and bark, with a serif for headings"),
		readTheme("harbor", "a deep band of sea above plain text"),
		readTheme("ledger", "green-bar paper: striped rows, tabular figures"),
		readTheme("magazine", "a large first story, then two columns of others"),
		readTheme("manual", "a page of the manual: monospaced, capital headings, indented text"),
		readTheme("mono", "gray only: rank by weight and size"),
		readTheme("newspaper", "a broadsheet: serif type, a centered masthead, columns of summaries"),
		readTheme("nordic", "cold blues on snow, in rounded panels"),
		readTheme("paper", "a book page: serif text on warm paper"),
		readTheme("sidebar", "the menu in a column beside the text"),
		readTheme("solar", "balanced warm and cold tones after a well-known terminal palette"),
		readTheme("swiss", "a poster of the fifties: large grotesque type, one red, no ornament"),
		readTheme("terminal", "a console: one typeface of one width, prompts before headings"),
		readTheme("typewriter", "typed on cream paper, with a wide margin"),
	}
}
